package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/storetest"
)

// newHosts returns systems n/1, n/2, … on one store.
func newHosts(t *testing.T, count int, change func(*actor.Config)) []*host {
	t.Helper()
	shared := storetest.NewMemory()
	var hosts []*host
	for n := range count {
		h := newHost(t, func(c *actor.Config) {
			c.Node, c.Plane.Store, c.Plane.Texts = fmt.Sprintf("n/%d", n+1), shared, store.Texts(shared)
			if change != nil {
				change(c)
			}
		})
		h.store = shared
		hosts = append(hosts, h)
	}
	return hosts
}

// handOver gives up a stream, which must go well.
func (h *host) handOver(id string) {
	h.t.Helper()
	if err := h.HandOver(h.t.Context(), id); err != nil {
		h.t.Fatalf("hand over %s: %v", id, err)
	}
}

// adopt makes a stream live, which must go well.
func (h *host) adopt(id string) *plane.Stream {
	h.t.Helper()
	s, err := h.Adopt(h.t.Context(), id)
	if err != nil {
		h.t.Fatalf("adopt %s: %v", id, err)
	}
	return s
}

func (h *host) wantCounts(live, lingering int) {
	h.t.Helper()
	if l, g := h.Counts(); l != live || g != lingering {
		h.t.Errorf("%d live and %d lingering, want %d and %d", l, g, live, lingering)
	}
}

func TestAStreamGoesFromNodeToNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := newHosts(t, 2, nil)
		a, b := hosts[0], hosts[1]
		s := a.open("m1", "abc")
		c, err := a.Subscribe(t.Context(), actor.Access{Principal: "u1", StreamID: "m1"})
		if err != nil {
			t.Fatal(err)
		}
		a.handOver("m1")
		if _, ok := a.Stream("m1"); ok {
			t.Error("it is still here")
		}
		if text, last := drain(c); last.Kind != plane.KindStale || text != "" {
			t.Errorf("a reader got %q and %+v", text, last)
		}
		if _, last := a.read("m1", 0); last.Kind != plane.KindAbsent {
			t.Errorf("who asks for it here is told %+v", last)
		}
		if err := s.Push(t.Context(), "late"); !errors.Is(err, plane.ErrMoved) {
			t.Errorf("the producer is told %v", err)
		}
		if _, err := a.Open(t.Context(), plane.Claim{ID: "m1"}); !errors.Is(err, plane.ErrHeld) {
			t.Errorf("open answered %v", err)
		}
		a.wantCounts(0, 0)
		next := b.adopt("m1")
		b.wantCounts(1, 0)
		if err := next.PushAt(t.Context(), 3, "def"); err != nil {
			t.Error(err)
		}
		if text, _ := b.read("m1", 1); text != "bcdef" {
			t.Errorf("read %q", text)
		}
		b.handOver("m1")
		next = a.adopt("m1") // it may come back
		if _, err := next.Close(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait() // its node hears of the end by itself
		a.wantStored("m1", 6, plane.StatusComplete)
		a.wantCounts(0, 1)
		b.wantCounts(0, 0)
	})
}

// The next who asks after it is told is to find it gone.
func TestAStreamIsGoneBeforeItsReadersAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h *host
		told := 0
		h = newHosts(t, 1, func(c *actor.Config) {
			c.Plane.Hooks.Moved = func(s *plane.Stream, m plane.Moved) {
				told++
				if _, ok := h.Stream(s.ID()); ok || !m.Row.Disowned() || m.Row.Seq != 3 {
					t.Errorf("it is here: %v, %+v", ok, m)
				}
				if st := s.State(); st.Over {
					t.Error("its readers were told")
				}
			}
			c.Plane.Hooks.Ended = func(*plane.Stream, plane.Ending) { t.Error("it ended") }
		})[0]
		h.open("m1", "abc")
		h.handOver("m1")
		if told != 1 {
			t.Errorf("told %d times", told)
		}
	})
}

func TestWhatIsNotLiveHereIsNotHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts(t, 1, nil)[0]
		if err := h.HandOver(t.Context(), "m1"); !errors.Is(err, plane.ErrNotFound) {
			t.Errorf("none: %v", err)
		}
		s := h.open("m1", "abc")
		if _, err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := h.HandOver(t.Context(), "m1"); !errors.Is(err, plane.ErrClosed) {
			t.Errorf("one that lingers: %v", err)
		}
		h.store.FailWrites(4)
		h.store.Latency(time.Second, 0)
		lost := make(chan error, 1)
		go func() { _, err := h.Open(t.Context(), plane.Claim{ID: "m2"}); lost <- err }()
		synctest.Wait()
		if err := h.HandOver(t.Context(), "m2"); !errors.Is(err, plane.ErrNotFound) {
			t.Errorf("one whose open fails: %v", err)
		}
		if err := <-lost; err == nil {
			t.Error("the open did not fail")
		}
	})
}

func TestAHandOverWaitsForTheOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts(t, 1, nil)[0]
		h.store.Latency(time.Second, 0)
		go func() { _, _ = h.Open(t.Context(), plane.Claim{ID: "m1"}) }()
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := h.HandOver(short, "m1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("answered %v", err)
		}
		h.handOver("m1")
		h.wantCounts(0, 0)
	})
}

func TestOfSimultaneousAdoptionsOneWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := newHosts(t, 3, nil)
		hosts[0].open("m1", "abc")
		hosts[0].store.Latency(time.Millisecond, time.Millisecond)
		owner := hosts[0]
		for range 50 {
			owner.handOver("m1")
			type result struct {
				by  *host
				err error
			}
			results := make(chan result)
			for _, h := range slices.Concat(hosts, hosts) {
				go func() {
					_, err := h.Adopt(t.Context(), "m1")
					results <- result{h, err}
				}()
			}
			winners := 0
			for range 2 * len(hosts) {
				switch r := <-results; {
				case r.err == nil:
					winners++
					owner = r.by
				case !errors.Is(r.err, plane.ErrOpenHere) && !errors.Is(r.err, plane.ErrHeld):
					t.Errorf("a loser was told %v", r.err)
				}
			}
			if winners != 1 {
				t.Fatalf("%d adoptions won", winners)
			}
		}
	})
}

func TestAnAdoptionIsRefusedAsAnOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := newHosts(t, 2, func(c *actor.Config) { c.MaxStreams = 1 })
		a, b := hosts[0], hosts[1]
		a.open("m1", "abc")
		b.open("m2", "abc")
		if _, err := a.Adopt(t.Context(), "m1"); !errors.Is(err, plane.ErrOpenHere) {
			t.Errorf("of what is here: %v", err)
		}
		a.handOver("m1")
		if _, err := b.Adopt(t.Context(), "m1"); !errors.Is(err, plane.ErrFull) {
			t.Errorf("where it is full: %v", err)
		}
		b.handOver("m2")
		if err := b.Shut(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := b.Adopt(t.Context(), "m1"); !errors.Is(err, plane.ErrDraining) {
			t.Errorf("in a drain: %v", err)
		}
		if _, err := a.Adopt(t.Context(), "m3"); !errors.Is(err, plane.ErrNotFound) {
			t.Errorf("of what there is not: %v", err)
		}
		a.wantCounts(0, 0)
		a.adopt("m2")
	})
}

// Those without a taker are sealed.
func TestADrainHandsOverAndSealsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := newHosts(t, 2, nil)
		a, b := hosts[0], hosts[1]
		for n := range 20 {
			a.open(fmt.Sprint("m", n), "abc")
		}
		if err := a.Shut(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := a.Open(t.Context(), plane.Claim{ID: "new"}); !errors.Is(err, plane.ErrDraining) || !a.Draining() {
			t.Errorf("open answered %v", err)
		}
		if slices.ContainsFunc(a.store.Calls(), func(c storetest.Call) bool { return c.ID == "new" }) {
			t.Error("it was asked of the store")
		}
		for _, s := range a.Streams() {
			if s.ID() < "m15" {
				a.handOver(s.ID())
				b.adopt(s.ID())
			}
		}
		if err := a.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		for n := range 20 {
			id := fmt.Sprint("m", n)
			want := plane.StatusInterrupted
			if id < "m15" {
				want = plane.StatusStreaming
			}
			a.wantStored(id, 3, want)
		}
	})
}

// Nobody will serve it here: it is there for others again.
func TestADrainThatOvertakesAnAdoptionPutsItBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := newHosts(t, 2, nil)
		a, b := hosts[0], hosts[1]
		a.open("m1", "abc")
		a.handOver("m1")
		a.store.Latency(100*time.Millisecond, 0)
		answer := make(chan error, 1)
		go func() { _, err := b.Adopt(t.Context(), "m1"); answer <- err }()
		time.Sleep(50 * time.Millisecond)
		if err := b.Shut(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-answer; !errors.Is(err, plane.ErrDraining) {
			t.Errorf("adopting answered %v", err)
		}
		b.wantCounts(0, 0)
		a.adopt("m1")
	})
}

func TestAnAdoptionWithoutAnAnswerIsPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := newHosts(t, 2, nil)
		a, b := hosts[0], hosts[1]
		a.open("m1", "abc")
		a.handOver("m1")
		a.store.LoseAcks(4)
		if _, err := b.Adopt(t.Context(), "m1"); !errors.Is(err, storetest.ErrAckLost) {
			t.Errorf("adopting answered %v", err)
		}
		if row, err := a.store.Read(t.Context(), "m1"); err != nil || row.Token != "n/2/1" {
			t.Errorf("%+v, %v", row, err)
		}
		time.Sleep(5 * time.Second)
		a.adopt("m1")
		a.wantCounts(1, 0)
		b.wantCounts(0, 0)
	})
}

// What gave it up may still be on its way to the store.
func TestAStreamThatLeftWithoutAnAnswerDoesNotComeBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := newHosts(t, 2, nil)
		a, b := hosts[0], hosts[1]
		if _, err := a.open("m1", "abc").Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.store.LoseAcks(1)
		a.store.FailReads(1)
		a.handOver("m1")
		if _, err := a.Adopt(t.Context(), "m1"); !errors.Is(err, plane.ErrMoved) {
			t.Errorf("adopting answered %v", err)
		}
		b.adopt("m1")
		b.handOver("m1")
		if _, err := a.Adopt(t.Context(), "m1"); !errors.Is(err, plane.ErrMoved) {
			t.Errorf("adopting answered %v", err)
		}
		time.Sleep(2 * time.Minute)
		a.adopt("m1")
	})
}

func TestAStreamThatCannotBeHandedOverGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts(t, 1, nil)[0]
		s := h.open("m1", "abc")
		h.store.FailWrites(1000)
		if err := h.HandOver(t.Context(), "m1"); !errors.Is(err, plane.ErrShort) {
			t.Errorf("answered %v", err)
		}
		h.store.Clear()
		if got, ok := h.Stream("m1"); !ok || got != s {
			t.Error("it is gone")
		}
		h.wantCounts(1, 0)
		if err := s.Push(t.Context(), "def"); err != nil {
			t.Error(err)
		}
		if err := h.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		h.wantStored("m1", 6, plane.StatusInterrupted)
	})
}
