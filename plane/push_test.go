package plane_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

func TestAnEmptyPushIsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		c := s.Join(0)
		defer c.Close()
		take(c)
		s.push("")
		s.after(time.Hour)
		if got := take(c); len(got.frames) > 0 || len(s.slices()) > 0 {
			t.Errorf("a reader got %v, the store %v", got.frames, s.slices())
		}
	})
}

func TestPushHandsTextToReadersBeforeTheStoreHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.store.Latency(time.Hour, 0)
		c := s.Join(0)
		defer c.Close()
		take(c)
		s.push(strings.Repeat("x", 600))
		if got := take(c); len(got.frames) != 1 || got.last.Seq != 600 {
			t.Errorf("a reader got %v", got.frames)
		}
	})
}

func TestPushAfterASealIsRefusedAndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.push("abc")
		s.store.Latency(time.Second, 0)
		closed := s.closed()
		for range 2 { // while it is being sealed, and after
			if err := s.Push(s.ctx, "late"); !errors.Is(err, plane.ErrClosed) {
				t.Errorf("push answered %v", err)
			}
			if err := s.PushAt(s.ctx, 3, "late"); !errors.Is(err, plane.ErrClosed) {
				t.Errorf("push at the end answered %v", err)
			}
			s.after(time.Second)
		}
		wantAnswer(t, "close", closed, nil)
		s.wantSealed(plane.StatusComplete)
	})
}

func TestPushPastTheLimitIsRefusedWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, policy(func(p *plane.Policy) { p.MaxUnits = 10 }))
		s.push("01234567")
		for _, delta := range []string{"abc", "x\xED\xA0\xBDx"} { // the second with half a pair
			if err := s.Push(s.ctx, delta); !errors.Is(err, plane.ErrTooLong) {
				t.Errorf("push of %q answered %v", delta, err)
			}
		}
		s.push("😀")
		if st := s.State(); st.Seq != 10 {
			t.Errorf("produced %d", st.Seq)
		}
	})
}

// A producer past MaxOutstanding waits for the store, and nobody else does.
func TestBackPressure(t *testing.T) {
	full := func(t *testing.T) *scene {
		s := newScene(t, policy(func(p *plane.Policy) { p.MaxOutstanding = 1000 }))
		s.store.FailWrites(1 << 30)
		s.push(strings.Repeat("x", 999), strings.Repeat("y", 500))
		return s
	}
	blocked := func(s *scene, ctx context.Context) <-chan error {
		answer := make(chan error, 1)
		go func() { answer <- s.Push(ctx, "z") }()
		s.after(time.Minute)
		wantNone(s.t, "push", answer)
		return answer
	}
	t.Run("ends when the store holds enough", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := full(t)
			answer := blocked(s, s.ctx)
			s.store.Clear()
			s.after(time.Minute)
			wantAnswer(t, "push", answer, nil)
			s.pushed += "z"
			s.wantStored(s.pushed)
		})
	})
	t.Run("ends with the context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := full(t)
			ctx, cancel := context.WithCancel(s.ctx)
			answer := blocked(s, ctx)
			cancel()
			wantAnswer(t, "push", answer, context.Canceled)
			if st := s.State(); st.Seq != 1499 {
				t.Errorf("produced %d", st.Seq)
			}
		})
	})
	t.Run("ends with a seal", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := full(t)
			answer := blocked(s, s.ctx)
			s.store.Clear()
			closed := s.closed()
			wantAnswer(t, "push", answer, plane.ErrClosed)
			wantAnswer(t, "close", closed, nil)
			s.wantSealed(plane.StatusComplete)
		})
	})
	t.Run("holds up no reader", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := full(t)
			ctx, cancel := context.WithCancel(s.ctx)
			answer := blocked(s, ctx)
			if got := s.join(0); len(got.text) != 1499 {
				t.Errorf("a reader got %d units", len(got.text))
			}
			cancel()
			<-answer
		})
	})
}
