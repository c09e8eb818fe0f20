package router

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store/feed"
	"rillkeep.dev/rillkeep/store/storetest"
)

// An outage of the store is none of this node's faults: who hands over asks another.
func TestAnAdoptionThatTheStoreDoesNotTakeMayBeTriedAgain(t *testing.T) {
	var log bytes.Buffer
	var told []feed.Change
	r := oneOfTwo(t, Config{
		Logger:  slog.New(slog.NewTextHandler(&log, nil)),
		Publish: func(c feed.Change) { told = append(told, c) },
	})
	rows := r.cfg.Store.(*storetest.Memory)
	rows.Edit("m1", func(row *storetest.Row) { row.Status, row.Token, row.Epoch = plane.StatusStreaming, "/a mark", 1 })
	adopt := func(id string) *wire.Error {
		w := httptest.NewRecorder()
		c := r.echo.NewContext(httptest.NewRequest(http.MethodPost, "/", nil), w)
		c.Set(idKey, id)
		c.Set(nodeKey, "n/2")
		if err := r.adopt(c); err != nil {
			r.writeError(err, c)
		}
		if w.Code == http.StatusOK {
			return nil
		}
		return wire.Decode(w.Code, w.Body.Bytes())
	}
	if err := adopt("m2"); !errors.Is(err, plane.ErrNotFound) {
		t.Errorf("one that is not there: %v", err)
	}
	rows.FailWrites(1 << 20)
	if err := adopt("m1"); !errors.Is(err, wire.ErrUnavailable) || err.Status != http.StatusServiceUnavailable {
		t.Errorf("while the store fails: %v", err)
	}
	rows.Clear()
	if log.Len() > 0 {
		t.Errorf("the log says %s", &log)
	}
	if len(told) > 0 {
		t.Errorf("told of %+v", told)
	}
	if err := adopt("m1"); err != nil {
		t.Errorf("when it does not: %v", err)
	}
	// Whose readers had to leave the live plane for so long come back.
	if want := (feed.Change{ID: "m1", Epoch: 1, Status: plane.StatusStreaming}); len(told) != 1 || told[0] != want {
		t.Errorf("told of %+v, want %+v", told, want)
	}
}
