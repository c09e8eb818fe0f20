package rows_test

import (
	"errors"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

func TestNamesOfRunsHaveNoSlash(t *testing.T) {
	for name, ok := range map[string]bool{"n1": true, "n_%": true, "": false, "a/b": false, "/": false} {
		for _, err := range []error{rows.CheckRun(name, "boot1"), rows.CheckRun("n1", name)} {
			if (err == nil) != ok {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
}

func TestAClaimIsOnesOwnInWhateverEpoch(t *testing.T) {
	for token, own := range map[string]bool{
		"n1/boot1/7": true, "n1/boot1/7/0": true, "n1/boot1/7/3,9": true,
		"n1/boot1/6": false, "n1/boot1/77": false, "n1/boot1/7/x": false, "n1/boot11/7": false, "n1/boot1": false, "": false, "/1.1/7": false,
	} {
		row := plane.Row{Status: plane.StatusStreaming, Token: token, Epoch: 7}
		got, err := rows.Judge("n1/boot1", rows.Found{Row: row})
		if got != own || own == errors.Is(err, plane.ErrHeld) {
			t.Errorf("%q: %v, %v", token, got, err)
		}
	}
}
