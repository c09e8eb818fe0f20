package router

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/storetest"
)

// slowly reads texts when the gate is open.
type slowly struct {
	plane.Texts
	gate chan struct{}
}

func (s slowly) Page(ctx context.Context, id string, from, limit int64) (string, int64, error) {
	<-s.gate
	return s.Texts.Page(ctx, id, from, limit)
}

func TestAProducerWhoseStreamIsBeingAdoptedIsToAskAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := storetest.NewMemory()
		rows.Edit("m1", func(row *storetest.Row) {
			row.Status, row.Token, row.Epoch, row.Seq, row.Body = plane.StatusStreaming, "/1/1", 1, 4, "text"
		})
		texts := slowly{store.Texts(rows), make(chan struct{})}
		actors, err := actor.New(actor.Config{Plane: plane.Config{Store: rows, Texts: texts}, Node: "n/1", Authorize: Authorize})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = actors.Close(context.Background()) }()
		r, err := New(Config{Actors: actors, Store: rows, Metrics: NewMetrics(), Cluster: alone{}})
		if err != nil {
			t.Fatal(err)
		}
		adopted := make(chan error, 1)
		go func() {
			_, err := actors.Adopt(context.Background(), "m1")
			adopted <- err
		}()
		synctest.Wait()
		for _, route := range []string{"append", "flush", "close"} {
			w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/streams/m1/"+route, strings.NewReader(""))
			req.Host = "localhost"
			req.Header.Set("Content-Type", "text/plain")
			r.ServeHTTP(w, req)
			err := wire.Decode(w.Code, w.Body.Bytes())
			if off, ok := errors.AsType[*plane.OffsetError](err); !ok || off.Kind != plane.ErrMoved || off.Want != 4 {
				t.Errorf("%s: answered %d %s", route, w.Code, w.Body)
			}
		}
		close(texts.gate)
		if err := <-adopted; err != nil {
			t.Error(err)
		}
	})
}

// alone is a cluster of this node, for the time being.
type alone struct{ two }

func (alone) Owner(string) string { return "n/1" }
