package plane_test

import (
	"testing"

	"rillkeep.dev/rillkeep/plane"
)

func TestNodesOfTokens(t *testing.T) {
	for token, want := range map[string]string{
		"n1/boot1/1": "n1/boot1", "n1/boot1/2/0": "n1/boot1", "n1/boot1/3/0,7": "n1/boot1", "n1/boot1/": "n1/boot1",
		"": "", "n1": "", "n1/boot1": "", "/17.1/1": "", "/17/1/5": "", "n1//1": "", "//1": "",
	} {
		if got := plane.NodeOf(token); got != want {
			t.Errorf("%q: %q, want %q", token, got, want)
		}
	}
}

func TestAMarkKeepsTheSessionAndTheOrigins(t *testing.T) {
	for token, want := range map[string]struct {
		session int64
		origins int
	}{
		"/17.1/1": {1, 0}, "/17.42/3/5,9": {42, 2}, "/17/1": {0, 0}, "/17/2/5": {0, 1}, "/17.x/1": {0, 0}, "/17.-1/1": {0, 0}, "/17./1": {0, 0},
		"n.4/boot.5/2/5": {0, 1},
	} {
		row := plane.Row{Status: plane.StatusStreaming, Token: token}
		if got := row.Session(); got != want.session || len(row.Origins()) != want.origins {
			t.Errorf("%q: session %d, origins %v, want %+v", token, got, row.Origins(), want)
		}
	}
	ended := plane.Row{Status: plane.StatusInterrupted, Token: "/17.4/1"}
	if ended.Session() != 0 {
		t.Error("a row that has ended has a session")
	}
}
