package rows_test

import (
	"slices"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/store/internal/rows"
)

func TestOrphansAreOfOneNode(t *testing.T) {
	all, but, err := rows.Orphans("n1", "boot2")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, token := range []string{"n1/boot1/1", "n1/boot2/1", "n11/boot1/1", "n1"} {
		if strings.HasPrefix(token, all) && !strings.HasPrefix(token, but) {
			got = append(got, token)
		}
	}
	if !slices.Equal(got, []string{"n1/boot1/1"}) {
		t.Errorf("got %v", got)
	}
}
