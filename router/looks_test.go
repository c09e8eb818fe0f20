package router

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

func TestReadersThatComeAtOnceAreOneLookAtTheirRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l looks
		reads := 0
		read := func(ctx context.Context, id string) (store.Stream, error) {
			reads++
			time.Sleep(time.Second)
			return store.Stream{ID: id, Row: plane.Row{Seq: int64(reads)}}, ctx.Err()
		}
		look := func(ctx context.Context, want int64) {
			t.Helper()
			if s, err := l.at(ctx, "m1", read); err != nil || s.ID != "m1" || s.Seq != want {
				t.Errorf("look %d: %+v, %v", want, s, err)
			}
		}
		first, leave := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		readers.Go(func() { look(first, 1) })
		synctest.Wait()
		leave() // for the others it goes on
		for range 100 {
			readers.Go(func() { look(t.Context(), 1) })
		}
		hurried, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := l.at(hurried, "m1", read); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who waits no longer: %v", err)
		}
		readers.Wait()
		look(t.Context(), 1) // a moment later
		time.Sleep(2 * lookTime)
		synctest.Wait()
		look(t.Context(), 2)
		time.Sleep(2 * lookTime)
		if synctest.Wait(); len(l.of) > 0 {
			t.Errorf("%d looks are kept", len(l.of))
		}
	})
}

func TestALookThatFailsIsNotKept(t *testing.T) {
	var l looks
	failed := errors.New("the store is away")
	for _, want := range []error{failed, nil} {
		if _, err := l.at(t.Context(), "m1", func(context.Context, string) (store.Stream, error) { return store.Stream{}, want }); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}
