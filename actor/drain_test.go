package actor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

func TestADrainSealsEveryStreamWithAllThatWasProduced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		var streams []*plane.Stream
		for i := range 200 {
			s := h.open(fmt.Sprintf("m%d", i), strings.Repeat("x", 600))
			streams = append(streams, s)
		}
		synctest.Wait() // the first 600 are durable
		for _, s := range streams {
			if err := s.Push(t.Context(), "tail"); err != nil {
				t.Fatal(err)
			}
		}
		c, err := h.Subscribe(t.Context(), actor.Access{Principal: "u1", StreamID: "m7"})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		for i := range streams {
			h.wantStored(fmt.Sprintf("m%d", i), 604, plane.StatusInterrupted)
		}
		if text, last := drain(c); len(text) != 604 || last.Kind != plane.KindEnd || last.Status != plane.StatusInterrupted {
			t.Errorf("a reader got %d units and %+v", len(text), last)
		}
		if err := streams[0].Push(t.Context(), "late"); !errors.Is(err, plane.ErrClosed) {
			t.Errorf("push answered %v", err)
		}
		if _, err := h.Open(t.Context(), plane.Claim{ID: "new"}); !errors.Is(err, plane.ErrDraining) || !h.Draining() {
			t.Errorf("open answered %v", err)
		}
	})
}

func TestADrainReportsWhatDidNotReachTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.open("good", "abc")
		h.open("lost", "abc")
		h.take("lost")
		err := h.Drain(t.Context())
		if !errors.Is(err, plane.ErrFenced) || !strings.Contains(err.Error(), `"lost"`) || strings.Contains(err.Error(), "good") {
			t.Errorf("drain answered %v", err)
		}
		h.wantStored("good", 3, plane.StatusInterrupted)
		h.wantStored("lost", 0, plane.StatusStreaming)
	})
}

func TestADrainEndsWithItsContext(t *testing.T) {
	for name, before := range map[string]func(*host){
		"while a store hangs in a seal": func(h *host) {
			h.open("m1", "abc")
			h.store.Hang(true)
		},
		"while a store hangs in an open": func(h *host) {
			h.store.Hang(true)
			go func() {
				if _, err := h.Open(context.Background(), plane.Claim{ID: "m1"}); !errors.Is(err, plane.ErrDraining) {
					h.t.Errorf("open answered %v", err)
				}
			}()
			synctest.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, nil)
				before(h)
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				begin := time.Now()
				if err := h.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("drain answered %v", err)
				}
				if took := time.Since(begin); took != 3*time.Second {
					t.Errorf("drain took %s of 3 s", took)
				}
			})
		})
	}
}

func TestADrainThatOvertakesAnOpenEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.store.Latency(20*time.Millisecond, 0)
		opened := make(chan error, 1)
		go func() {
			_, err := h.Open(t.Context(), plane.Claim{ID: "m1"})
			opened <- err
		}()
		time.Sleep(10 * time.Millisecond)
		if err := h.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-opened; !errors.Is(err, plane.ErrDraining) {
			t.Errorf("open answered %v", err)
		}
		h.wantStored("m1", 0, plane.StatusInterrupted)
		if live, lingering := h.Counts(); live+lingering != 0 {
			t.Errorf("%d live and %d lingering, want none", live, lingering)
		}
	})
}

func TestADrainEndsAnOpenThatIsBeingRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.store.FailWrites(100)
		opened := make(chan error, 1)
		go func() {
			_, err := h.Open(t.Context(), plane.Claim{ID: "m1"})
			opened <- err
		}()
		synctest.Wait()
		begin := time.Now()
		if err := h.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-opened; !errors.Is(err, plane.ErrDraining) || !errors.Is(err, storetest.ErrWrite) || time.Since(begin) > 0 {
			t.Errorf("open answered %v after %s", err, time.Since(begin))
		}
	})
}

func TestACloseWritesNothingAndTellsReadersAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		s := h.open("m1", "abc")
		if _, err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Push(t.Context(), "lost"); err != nil {
			t.Fatal(err)
		}
		c, err := h.Subscribe(t.Context(), actor.Access{Principal: "u1", StreamID: "m1"})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		h.wantStored("m1", 3, plane.StatusStreaming)
		if _, last := drain(c); last.Kind != plane.KindAbsent {
			t.Errorf("a reader was told %+v last", last)
		}
		if err := s.Push(t.Context(), "late"); !errors.Is(err, plane.ErrClosed) {
			t.Errorf("push answered %v", err)
		}
		if _, err := s.Flush(t.Context()); !errors.Is(err, plane.ErrShort) {
			t.Errorf("flush answered %v", err)
		}
	})
}
