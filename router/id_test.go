package router_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/store/storetest"
)

// noIDs are the recorded ids that are none here, and how they are refused.
var noIDs = map[string]int{
	"":                       http.StatusNotFound, // another route
	"a\x00b":                 http.StatusBadRequest,
	"a\nb":                   http.StatusBadRequest,
	strings.Repeat("q", 300): http.StatusBadRequest,
}

// In our routes a stream's id is a part of the path, percent-encoded. It must
// take every id that the recorded query took, if it is one.
func TestAPathHoldsEveryRecordedID(t *testing.T) {
	data, err := os.ReadFile("sse/testdata/request.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct {
		Cases []struct {
			Name string
			Out  struct{ StreamID string }
		}
	}
	if err := json.Unmarshal(data, &recorded); err != nil {
		t.Fatal(err)
	}
	none := make(map[string]bool)
	for _, c := range recorded.Cases {
		id, want := c.Out.StreamID, http.StatusCreated
		if status, ok := noIDs[id]; ok {
			none[id], want = true, status
		}
		for _, escaped := range []string{url.PathEscape(id), everyByte(id)} {
			rows := storetest.NewMemory()
			r, _ := openOn(t, rows, router.Limits{})
			w := httptest.NewRecorder()
			req := httptest.NewRequest(http.MethodPost, "/v1/streams/"+escaped, nil)
			req.Host = "localhost"
			r.ServeHTTP(w, req)
			if _, opened := rows.Row(id); w.Code != want || opened != (want == http.StatusCreated) {
				t.Errorf("%s as %.50s: %d %s", c.Name, escaped, w.Code, w.Body)
			}
		}
	}
	if len(recorded.Cases) < 38 || len(none) != len(noIDs) {
		t.Errorf("%d cases, %d of them with no id", len(recorded.Cases), len(none))
	}
}

// everyByte is s with each of its bytes percent-encoded.
func everyByte(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02X", s[i])
	}
	return b.String()
}
