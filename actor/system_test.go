package actor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is a system on an in-memory store, in a synctest bubble.
type host struct {
	*actor.System
	t     *testing.T
	store *storetest.Memory
}

// newHost returns a system whose principal "u1" may read; change may alter its
// settings.
func newHost(t *testing.T, change func(*actor.Config)) *host {
	t.Helper()
	h := &host{t: t, store: storetest.NewMemory()}
	cfg := actor.Config{
		Node:  "n/1",
		Plane: plane.Config{Store: h.store},

		ProducerTimeout: -1, // most wait without one

		Authorize: func(_ context.Context, a actor.Access) (bool, error) { return a.Principal == "u1", nil },
	}
	if change != nil {
		change(&cfg)
	}
	system, err := actor.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.System = system
	t.Cleanup(func() {
		h.store.Clear()
		if err := h.Close(context.Background()); err != nil {
			t.Errorf("close system: %v", err)
		}
	})
	return h
}

// open opens a stream and pushes text.
func (h *host) open(id, text string) *plane.Stream {
	h.t.Helper()
	s, err := h.Open(h.t.Context(), plane.Claim{ID: id})
	if err != nil {
		h.t.Fatalf("open %s: %v", id, err)
	}
	if err := s.Push(h.t.Context(), text); err != nil {
		h.t.Fatalf("push %q: %v", text, err)
	}
	return s
}

// read joins as u1 and takes all frames that are there.
func (h *host) read(id string, from int64) (text string, last plane.Frame) {
	h.t.Helper()
	c, err := h.Subscribe(h.t.Context(), actor.Access{Principal: "u1", StreamID: id, From: from})
	if err != nil {
		h.t.Fatalf("subscribe to %s: %v", id, err)
	}
	defer c.Close()
	return drain(c)
}

// drain takes all frames that are there.
func drain(c *plane.Cursor) (text string, last plane.Frame) {
	for {
		f, ok, _ := c.Poll()
		if !ok {
			return text, last
		}
		text, last = text+f.Text, f
	}
}

func (h *host) wantStored(id string, seq int64, status plane.Status) {
	h.t.Helper()
	if r, _ := h.store.Row(id); r.Seq != seq || r.Status != status {
		h.t.Errorf("the row of %s is %s at %d, want %s at %d", id, r.Status, r.Seq, status, seq)
	}
}

func TestSettingsThatCannotWorkAreRefused(t *testing.T) {
	allow := func(context.Context, actor.Access) (bool, error) { return true, nil }
	memory := plane.Config{Store: storetest.NewMemory()}
	for name, cfg := range map[string]actor.Config{
		"no authorizer":        {Node: "n/1", Plane: memory},
		"no node":              {Plane: memory, Authorize: allow},
		"no store":             {Node: "n/1", Authorize: allow},
		"negative linger":      {Node: "n/1", Plane: memory, Authorize: allow, Linger: -1},
		"negative join wait":   {Node: "n/1", Plane: memory, Authorize: allow, JoinWait: -1},
		"negative max streams": {Node: "n/1", Plane: memory, Authorize: allow, MaxStreams: -1},
		"an empty relay":       {Node: "n/1", Plane: memory, Authorize: allow, Relay: &actor.Relay{}},
		"negative window":      {Node: "n/1", Plane: memory, Authorize: allow, AttachWindow: -1},
		"a window, no relay":   {Node: "n/1", Plane: memory, Authorize: allow, AttachWindow: time.Second},
	} {
		if _, err := actor.New(cfg); !errors.Is(err, plane.ErrConfig) {
			t.Errorf("%s: answered %v, want ErrConfig", name, err)
		}
	}
}

func TestANameIsHeldFromItsOpeningToItsRetirement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, func(c *actor.Config) { c.Linger = time.Second })
		refused := func(when string) {
			t.Helper()
			if _, err := h.Open(t.Context(), plane.Claim{ID: "m1"}); !errors.Is(err, plane.ErrOpenHere) {
				t.Errorf("%s: open answered %v, want ErrOpenHere", when, err)
			}
		}
		h.store.Latency(50*time.Millisecond, 0)
		opened := make(chan *plane.Stream)
		go func() { opened <- h.open("m1", "abc") }()
		synctest.Wait()
		refused("while it is being opened")
		s := <-opened
		refused("while it is live")
		if _, err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		refused("while it lingers")
		time.Sleep(time.Second)
		synctest.Wait()
		if _, err := h.Open(t.Context(), plane.Claim{ID: "m1"}); !errors.Is(err, plane.ErrExists) {
			t.Errorf("after it has retired: open answered %v, want ErrExists", err)
		}
		if live, lingering := h.Counts(); live+lingering != 0 {
			t.Errorf("%d live and %d lingering, want none", live, lingering)
		}
	})
}

func TestAFailedOpenFreesTheName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.store.FailWrites(4)
		if _, err := h.Open(t.Context(), plane.Claim{ID: "m1"}); !errors.Is(err, storetest.ErrWrite) {
			t.Fatalf("open answered %v", err)
		}
		h.open("m1", "abc")
	})
}

func TestALostAnswerToAnOpenIsAbsorbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.store.LoseAcks(2)
		s := h.open("m1", "abc")
		if _, err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		h.wantStored("m1", 3, plane.StatusComplete)
	})
}

func TestOfSimultaneousOpensOneWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newHost(t, nil)
		b := newHost(t, func(c *actor.Config) { c.Node, c.Plane.Store = "n/2", a.store })
		a.store.Latency(time.Millisecond, time.Millisecond)
		for range 1000 {
			results := make(chan error, 2)
			id := time.Now().String()
			for _, y := range []*host{a, b} {
				go func() {
					_, err := y.Open(t.Context(), plane.Claim{ID: id})
					results <- err
				}()
			}
			first, second := <-results, <-results
			if (first == nil) == (second == nil) {
				t.Fatalf("opens answered %v and %v, want one winner", first, second)
			}
			if lost := errors.Join(first, second); !errors.Is(lost, plane.ErrLostRace) && !errors.Is(lost, plane.ErrHeld) {
				t.Fatalf("the loser was answered %v", lost)
			}
		}
	})
}

func TestAFullNodeRefusesStreamsAndServesWhatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, func(c *actor.Config) { c.MaxStreams, c.Linger = 2, time.Second })
		s := h.open("m1", "abc")
		h.open("m2", "abc")
		if _, err := h.Open(t.Context(), plane.Claim{ID: "m3"}); !errors.Is(err, plane.ErrFull) {
			t.Errorf("open answered %v, want ErrFull", err)
		}
		if text, _ := h.read("m2", 0); text != "abc" {
			t.Errorf("read %q", text)
		}
		if _, err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		h.open("m3", "abc")
	})
}

func TestCountsTellLiveFromLingering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		want := func(when string, live, lingering int) {
			t.Helper()
			synctest.Wait()
			if l, g := h.Counts(); l != live || g != lingering {
				t.Errorf("%s: %d live and %d lingering, want %d and %d", when, l, g, live, lingering)
			}
		}
		h.store.Latency(time.Second, 0)
		opened := make(chan *plane.Stream)
		go func() { opened <- h.open("m1", "abc") }()
		want("while it is being opened", 1, 0)
		s := <-opened
		want("when it is open", 1, 0)
		if _, err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		want("when it has ended", 0, 1)
		h.store.Latency(0, 0)
		h.store.FailWrites(4)
		if _, err := h.Open(t.Context(), plane.Claim{ID: "m2"}); err == nil {
			t.Error("the second open should fail")
		}
		want("after an open that failed", 0, 1)
	})
}
