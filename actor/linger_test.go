package actor_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

func TestAnEndedStreamIsJoinableToTheLastMomentOfItsLinger(t *testing.T) {
	for name, linger := range map[string]time.Duration{"by default 30 s": 0, "as set": 500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, func(c *actor.Config) { c.Linger = linger })
				s := h.open("m1", "a😀b")
				if _, err := s.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				if linger == 0 {
					linger = actor.DefaultLinger
				}
				time.Sleep(linger - 1)
				text, last := h.read("m1", 2)
				if text != "😀b" || last.Kind != plane.KindEnd || last.Seq != 4 || last.Status != plane.StatusComplete {
					t.Errorf("inside the linger: read %q and %+v", text, last)
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				if text, last := h.read("m1", 0); text != "" || last.Kind != plane.KindAbsent {
					t.Errorf("after the linger: read %q and %+v", text, last)
				}
			})
		})
	}
}

func TestAReaderThatJoinedInTimeReadsOnAfterTheLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, func(c *actor.Config) { c.Linger = time.Second })
		s := h.open("m1", "abc")
		c, err := h.Subscribe(t.Context(), actor.Access{Principal: "u1", StreamID: "m1"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Fail(t.Context(), "boom"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if text, last := drain(c); text != "abc" || last.Status != plane.StatusError || last.Error != "boom" {
			t.Errorf("read %q and %+v", text, last)
		}
	})
}

// Until its end is in the store (L), the name of a stream whose seal failed is
// held: whoever opened it meanwhile would write other text under its token (S).
func TestAStreamWhoseSealFailedIsSealedWhenTheStoreIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		s := h.open("m1", "abc")
		h.store.FailWrites(1000)
		if _, err := s.Close(t.Context()); err == nil {
			t.Fatal("close should fail")
		}
		if text, last := h.read("m1", 0); text != "abc" || last.Status != plane.StatusInterrupted || last.Seq != 0 {
			t.Errorf("read %q and %+v", text, last)
		}
		time.Sleep(10 * actor.DefaultLinger)
		if _, err := h.Open(t.Context(), plane.Claim{ID: "m1"}); !errors.Is(err, plane.ErrOpenHere) {
			t.Errorf("open while the row is not sealed: %v", err)
		}

		h.store.Clear()
		time.Sleep(time.Minute)
		synctest.Wait()
		row, err := h.store.Read(t.Context(), "m1")
		if err != nil || row.Status != plane.StatusInterrupted || row.Seq != 3 {
			t.Errorf("the row is %+v, %v", row, err)
		}
		if _, last := h.read("m1", 0); last.Kind != plane.KindAbsent {
			t.Errorf("after the linger: read %+v", last)
		}
	})
}

func TestAClaimWhoseAnswerWasLostIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, func(c *actor.Config) {
			c.Plane.Policy = plane.DefaultPolicy()
			c.Plane.Policy.Retries = 0
		})
		h.store.LoseAcks(1)
		if _, err := h.Open(t.Context(), plane.Claim{ID: "m1"}); err == nil {
			t.Fatal("open should fail")
		}
		h.store.Clear()
		row, err := h.store.Read(t.Context(), "m1")
		if err != nil || row.Status != plane.StatusStreaming {
			t.Fatalf("the row is %+v, %v", row, err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if row, err = h.store.Read(t.Context(), "m1"); err != nil || row.Status != plane.StatusInterrupted {
			t.Errorf("the row is %+v, %v", row, err)
		}
		if s, err := h.Open(t.Context(), plane.Claim{ID: "m1"}); err != nil || s.Epoch() != 2 {
			t.Errorf("opened again: %v", err)
		}
	})
}

func TestAFencedStreamLeavesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		s := h.open("m1", "abc")
		h.take("m1")
		if _, err := s.Flush(t.Context()); err == nil {
			t.Fatal("flush should fail")
		}
		synctest.Wait()
		if live, lingering := h.Counts(); live+lingering != 0 {
			t.Errorf("%d live and %d lingering, want none", live, lingering)
		}
		if _, last := h.read("m1", 0); last.Kind != plane.KindAbsent {
			t.Errorf("read %+v", last)
		}
	})
}

// W43: the linger is the ended stream's, not its name's.
func TestTheLingerOfAStreamThatMadeRoomEndsNoLaterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newBudgeted(t, 100<<10)
		h.ended("m1", kilobytes(60)) // its linger would end at 30 s
		time.Sleep(actor.DefaultLinger / 2)
		h.ended("m2", kilobytes(60)) // and it has to make room
		if got := h.hosted("m1", "m2"); got != "m2" {
			t.Fatalf("held are: %s", got)
		}
		h.store.Edit("m1", func(r *storetest.Row) { *r = storetest.Row{Status: plane.StatusPending, Epoch: r.Epoch} })
		h.ended("m1", "x") // lingers until 45 s
		time.Sleep(actor.DefaultLinger - 1)
		synctest.Wait()
		if got := h.hosted("m1"); got != "m1" {
			t.Error("the later stream was retired before its time")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := h.hosted("m1"); got != "" {
			t.Error("it lingers on")
		}
	})
}
