package wire

import (
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTheREADMEListsEveryCode: who reads it relies on them.
func TestTheREADMEListsEveryCode(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, ok := strings.Cut(string(readme), "\nCodes: ")
	if !ok {
		t.Fatal("no list of codes")
	}
	list, _, _ = strings.Cut(list, "\n\n")
	got := make(map[string]int)
	var waiting []string // for their status, which is said once for neighbours
	for _, word := range regexp.MustCompile("`([a-z_]+)`|\\b([45][0-9]{2})\\b").FindAllStringSubmatch(list, -1) {
		if word[1] != "" {
			waiting = append(waiting, word[1])
			continue
		}
		for _, code := range waiting {
			got[code], err = strconv.Atoi(word[2])
			if err != nil {
				t.Error(err)
			}
		}
		waiting = nil
	}
	want := map[string]int{"internal": http.StatusInternalServerError}
	for _, c := range codes {
		want[c.code] = c.status
	}
	if diff := cmp.Diff(want, got); diff != "" || len(waiting) > 0 {
		t.Errorf("codes (-table +README):\n%s\nwithout a status: %v", diff, waiting)
	}
}
