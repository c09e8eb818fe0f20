package plane_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

// confirmed waits elsewhere until more than above is durable, which is then so much.
func (s *scene) confirmed(ctx context.Context, above, durable int64) <-chan error {
	answer := make(chan error, 1)
	go func() {
		st, err := s.AwaitDurable(ctx, above)
		if err == nil && st.Durable != durable {
			err = fmt.Errorf("%d durable, not %d", st.Durable, durable)
		}
		answer <- err
	}()
	synctest.Wait()
	return answer
}

func TestWhoWaitsForTheStoreIsToldOfEachAdvanceAndNotOfText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.store.Latency(50*time.Millisecond, 0)
		first := s.confirmed(t.Context(), 0, 3)
		s.push("abc")
		s.after(plane.DefaultPolicy().Interval)
		s.push("de") // while the round is in flight
		wantNone(t, "the first", first)
		s.after(50 * time.Millisecond)
		wantAnswer(t, "the first", first, nil)

		if st, err := s.AwaitDurable(t.Context(), 2); st.Durable != 3 || st.Seq != 5 || err != nil {
			t.Errorf("what is known already: %+v, %v", st, err)
		}
		second := s.confirmed(t.Context(), 3, 5)
		s.after(plane.DefaultPolicy().Interval + 50*time.Millisecond)
		wantAnswer(t, "the second", second, nil)
	})
}

func TestTheWaitForTheStoreEndsWithTheStreamOrItsContext(t *testing.T) {
	for name, end := range map[string]func(*scene){
		"sealed":    func(s *scene) { _, _ = s.Close(s.ctx) },
		"abandoned": func(s *scene) { _ = s.Abandon(s.ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil)
				waits := s.confirmed(t.Context(), 0, 0)
				end(s)
				wantAnswer(t, "who waits", waits, io.EOF)
				wantAnswer(t, "who comes late", s.confirmed(t.Context(), 0, 0), io.EOF)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		waits := s.confirmed(ctx, 0, 0)
		cancel()
		wantAnswer(t, "who waits", waits, context.Canceled)
	})
}

func TestASealTellsWhoWaitsForTheStoreOfItsOwnText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		waits := s.confirmed(t.Context(), 0, 3)
		s.push("abc")
		if _, err := s.Close(s.ctx); err != nil {
			t.Fatal(err)
		}
		wantAnswer(t, "who waits", waits, nil)
	})
}
