package actor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

func TestADrainEndsWhatWasHandedOverAndNobodyHasTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := newHosts(t, 2, nil)
		a, b := hosts[0], hosts[1]
		for _, id := range []string{"left", "taken", "taken unheard of"} {
			a.open(id, "abc")
			a.handOver(id)
		}
		b.adopt("taken")
		a.Taken("taken")
		b.adopt("taken unheard of")
		if err := a.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		a.wantStored("left", 3, plane.StatusInterrupted)
		a.wantStored("taken", 3, plane.StatusStreaming)
		a.wantStored("taken unheard of", 3, plane.StatusStreaming)
		if err := b.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		b.wantStored("taken", 3, plane.StatusInterrupted)
		b.wantStored("taken unheard of", 3, plane.StatusInterrupted)
	})
}

func TestTakingBackSaysWhetherAnotherHasTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := newHosts(t, 2, nil)
		a, b := hosts[0], hosts[1]
		for _, id := range []string{"left", "taken"} {
			a.open(id, "abc")
			a.handOver(id)
		}
		b.adopt("taken")
		for id, want := range map[string]bool{"left": false, "taken": true, "unknown": true} {
			if taken, err := a.TakeBack(t.Context(), id); err != nil || taken != want {
				t.Errorf("%s: %v, %v", id, taken, err)
			}
		}
		if err := a.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := b.Adopt(t.Context(), "left"); !errors.Is(err, plane.ErrClosed) {
			t.Errorf("an adoption that comes late was answered %v", err)
		}
	})
}

// It was not known whether the store had given the stream up until the store was back,
// and nobody was asked to take it.
func TestADrainEndsWhatTheStoreGaveUpWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts(t, 1, nil)[0]
		h.open("m1", "abc")
		if s, ok := h.Stream("m1"); ok {
			if _, err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		h.store.LoseAcks(1000)
		h.store.FailReads(1000)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.HandOver(ctx, "m1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("handing over answered %v", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		time.AfterFunc(5*time.Second, h.store.Clear)
		if err := h.Drain(ctx); err != nil {
			t.Error(err)
		}
		h.wantStored("m1", 3, plane.StatusInterrupted)
	})
}

func TestADrainReportsWhatItCouldNotTakeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts(t, 1, nil)[0]
		h.open("m1", "abc")
		h.handOver("m1")
		h.store.Hang(true)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := h.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("drain answered %v", err)
		}
	})
}
