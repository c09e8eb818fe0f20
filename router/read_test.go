package router

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

// comesBack is the answer to a reader of the edge that has some of a stream, and leaves
// after a while.
func (c *cluster) comesBack(id, has string, after time.Duration) *httptest.ResponseRecorder {
	ctx, leave := context.WithTimeout(c.t.Context(), after)
	defer leave()
	w, req := httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/streams/"+id, nil)
	req.Host = "localhost"
	req.Header.Set("Last-Event-ID", has)
	c.edge.ServeHTTP(w, req)
	return w
}

// I: an EventSource that is answered 503 never comes back.
func TestAReaderComesBackToAStreamOfAnotherNodeWhileTheStoreIsDown(t *testing.T) {
	for name, fault := range map[string]func(*storetest.Memory){
		"it refuses":         func(rows *storetest.Memory) { rows.FailReads(1 << 20) },
		"it does not answer": func(rows *storetest.Memory) { rows.Hang(true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, Limits{})
				pushTo(t, c.open(c.owner, "m1"), "abcdef")
				fault(c.rows)
				defer c.rows.Clear()
				if w := c.comesBack("m1", "3", overTime+time.Second); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"text":"def"`) {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		})
	}
}

func TestAReaderThatHasAllOfAStreamIsToldToStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, Limits{})
		c.rows.Edit("m1", func(r *storetest.Row) {
			r.Status, r.Body, r.Seq, r.Epoch = plane.StatusComplete, "abcdef", 6, 2
		})
		for has, want := range map[string]int{"6@2": http.StatusNoContent, "5@2": http.StatusOK, "6": http.StatusOK, "0": http.StatusOK} {
			if w := c.comesBack("m1", has, time.Minute); w.Code != want {
				t.Errorf("%s: %d %s, want %d", has, w.Code, w.Body, want)
			}
		}
	})
}
