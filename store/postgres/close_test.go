package postgres_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

func TestClosingWaitsForACallAsLongAsItsContextLasts(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url), pgtest.Pool(t, url)
	claim(t, s, "s")
	release := pause(t, db, "INSERT ON rillkeep.chunks FOR EACH ROW")
	var row plane.Row
	var err error
	var call sync.WaitGroup
	call.Go(func() {
		row, err = s.Append(t.Context(), plane.Slice{ID: "s", Token: token, Seq: 3, Text: "abc"})
	})
	pgtest.Waiting(t, db, 1)
	ended, end := context.WithCancel(t.Context())
	end()
	if err := s.Close(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("close: %v", err)
	}
	release(1)
	call.Wait()
	if err != nil || row.Seq != 3 {
		t.Errorf("the call under way: %+v, %v", row, err)
	}
	pgtest.Close(t, s)
	if _, err := s.Read(t.Context(), "s"); err == nil {
		t.Error("a closed store answers")
	}
}
