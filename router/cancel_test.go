package router_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/store/storetest"
)

// gated is a store whose cancel waits for the gate, or its context's end.
type gated struct {
	*storetest.Memory
	gate chan struct{}
}

func (g gated) Cancel(ctx context.Context, id string) (plane.Row, error) {
	select {
	case <-g.gate:
		return g.Memory.Cancel(ctx, id)
	case <-ctx.Done():
		return plane.Row{}, ctx.Err()
	}
}

// cancel asks a stream to stop.
func cancel(ctx context.Context, r *router.Router, id string) int {
	code, _ := cancelled(ctx, r, id)
	return code
}

// cancelled is cancel, with the answer.
func cancelled(ctx context.Context, r *router.Router, id string) (int, string) {
	w := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/streams/"+id+"/cancel", nil)
	req.Host = "localhost"
	r.ServeHTTP(w, req)
	return w.Code, strings.TrimSpace(w.Body.String())
}

func TestAStopReachesTheRowWhenWhoAskedHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := gated{storetest.NewMemory(), make(chan struct{})}
		rows.Edit("m1", func(*storetest.Row) {})
		r, _ := openOn(t, rows, router.Limits{})
		ctx, leave := context.WithCancel(t.Context())
		go cancel(ctx, r, "m1")
		synctest.Wait()
		leave()
		synctest.Wait()
		close(rows.gate)
		synctest.Wait()
		if row, _ := rows.Row("m1"); !row.Cancel {
			t.Error("the stop is lost")
		}
	})
}

func TestAStopAnswersTheStreamAsItWasThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := gated{storetest.NewMemory(), make(chan struct{})}
		r, actors := openOn(t, rows, router.Limits{})
		s, err := actors.Open(t.Context(), plane.Claim{ID: "m1"})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			synctest.Wait() // the stop has reached the stream, and waits for its row
			if _, err := s.Close(context.Background()); err != nil {
				t.Error(err)
			}
			close(rows.gate)
		}()
		if code, said := cancelled(t.Context(), r, "m1"); code != http.StatusAccepted || said != `{"status":"streaming","seq":0,"durableSeq":0}` {
			t.Errorf("answered %d %s", code, said)
		}
		if _, said := cancelled(t.Context(), r, "m1"); said != `{"status":"cancelled","seq":0,"durableSeq":0}` {
			t.Errorf("answered %s the second time", said)
		}
	})
}

func TestAStopIsGivenUpAfterTheTimeOfAStoreCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := gated{storetest.NewMemory(), nil}
		rows.Edit("m1", func(*storetest.Row) {})
		r, _ := openOn(t, rows, router.Limits{StoreTime: 3 * time.Second})
		began := time.Now()
		if code := cancel(t.Context(), r, "m1"); code != http.StatusServiceUnavailable {
			t.Errorf("answered %d", code)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
