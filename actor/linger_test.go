package actor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
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

func TestAStreamWhoseSealFailedLingersToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		s := h.open("m1", "abc")
		h.store.FailWrites(8)
		if _, err := s.Close(t.Context()); err == nil {
			t.Fatal("close should fail")
		}
		if text, last := h.read("m1", 0); text != "abc" || last.Status != plane.StatusInterrupted || last.Seq != 0 {
			t.Errorf("read %q and %+v", text, last)
		}
		time.Sleep(actor.DefaultLinger)
		synctest.Wait()
		if _, last := h.read("m1", 0); last.Kind != plane.KindAbsent {
			t.Errorf("after the linger: read %+v", last)
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
