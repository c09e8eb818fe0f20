package actor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
)

// late is a pair whose edge has "abc" of a stream, and "def" a second later than
// readers elsewhere.
func late(t *testing.T) *pair {
	t.Helper()
	p := newPair(t, nil)
	p.wire.twist = func(f plane.Frame) ([]plane.Frame, time.Duration) {
		if f.Kind == plane.KindChunk && f.From > 0 {
			return []plane.Frame{f}, time.Second
		}
		return []plane.Frame{f}, 0
	}
	s := p.owner.open("m1", "abc")
	p.join(t, "m1", 0)
	synctest.Wait()
	push(t, s, "def")
	synctest.Wait()
	return p
}

func TestAReaderWithMoreThanTheMirrorIsNotTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := late(t)
		began := time.Now()
		c := p.join(t, "m1", 6)
		if f, _, _ := c.Poll(); f.Kind != plane.KindOpen || f.From != 6 || time.Since(began) != time.Second {
			t.Errorf("%+v after %v", f, time.Since(began))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		p := late(t)
		c, later := p.edge.Rejoin(actor.Access{StreamID: "m1", From: 6, Epoch: 1})
		if c != nil || later == nil {
			t.Fatalf("rejoined at once: %v, %v", c, later)
		}
		<-later
		c, _ = p.edge.Rejoin(actor.Access{StreamID: "m1", From: 6, Epoch: 1})
		if f, _, _ := c.Poll(); f.Kind != plane.KindOpen || f.From != 6 {
			t.Errorf("%+v", f)
		}
	})
}

func TestAReaderWithMoreThanWasEverSaidWaitsNoLongerThanForAnOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := late(t)
		began := time.Now()
		c := p.join(t, "m1", 1000)
		if f, _, _ := c.Poll(); f.Kind != plane.KindOpen || f.From != 6 || time.Since(began) != actor.DefaultJoinWait {
			t.Errorf("%+v after %v", f, time.Since(began))
		}
	})
}

func TestAProducerWaitsAMomentForAnOpen(t *testing.T) {
	for latency, want := range map[time.Duration]bool{time.Second: true, time.Minute: false} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, func(c *actor.Config) {
				c.Plane.Policy = plane.DefaultPolicy()
				c.Plane.Policy.StoreTimeout = time.Hour
			})
			if _, ok := h.Await(t.Context(), "m1"); ok {
				t.Error("a stream that nobody opens is there")
			}
			h.store.Latency(latency, 0)
			opened := make(chan error)
			go func() {
				_, err := h.Open(t.Context(), plane.Claim{ID: "m1"})
				opened <- err
			}()
			synctest.Wait()
			began := time.Now()
			_, ok := h.Await(t.Context(), "m1")
			if waited := time.Since(began); ok != want || waited > actor.DefaultJoinWait {
				t.Errorf("with %v of latency: %t after %v", latency, ok, waited)
			}
			<-opened
		})
	}
}
