package clustertest

import (
	"fmt"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/wire"
)

// disagree gives the members rings that differ: some do not hear each other's gossip,
// and reach each other all the same.
func (w *world) disagree() {
	for i, a := range w.members {
		for _, b := range w.members[i+1:] {
			switch w.rng.IntN(3) {
			case 0:
				w.net.Cut(a.gossipIP(), b.gossipIP())
			case 1:
				w.net.CutOneWay(a.gossipIP(), b.gossipIP())
			}
		}
	}
}

// isolate makes a member's ring one of its own.
func (w *world) isolate(m *member) {
	for _, other := range w.members {
		w.net.Cut(m.gossipIP(), other.gossipIP())
	}
}

// hops fails the test if what was just asked of a stream went through a member twice, or
// further than to whom the first one that was asked knew of.
func (w *world) hops(id, what string) (most int) {
	w.t.Helper()
	seen := map[string]int{}
	requests := w.log.served(id)
	for _, r := range requests {
		if seen[r.member]++; seen[r.member] > 1 {
			w.t.Errorf("%s: %s came to %s twice: %v", id, what, r.member, requests)
		}
	}
	if len(requests) > 3 {
		w.t.Errorf("%s: %s was sent %d times: %v", id, what, len(requests), requests)
	}
	return len(requests)
}

func TestNoRequestGoesInACircleWhileRingsDisagree(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1, 2}, func(w *world) {
		w.start(5)
		var most int
		var ids []string
		digests := map[string]bool{}
		for round := range 4 {
			w.net.Heal()
			w.disagree()
			if round%2 == 0 {
				w.isolate(w.members[w.rng.IntN(5)])
			}
			time.Sleep(12 * time.Second)
			for i, m := range w.members {
				if c, err := m.cluster(); err == nil {
					digests[fmt.Sprint(round, c.Ring)] = true
				}
				id := fmt.Sprintf("s%d-%d", round, i)
				w.judge.expect(id, newScript(w.rng, 1))
				ids = append(ids, id)
			}
			for _, id := range ids {
				for _, at := range w.rng.Perm(5) {
					c := w.caller(at, true, nil)
					script := w.judge.of(id).script
					for what, do := range map[string]func() error{
						"open":     func() error { _, err := c.client.Open(w.ctx, id, wire.Open{Resume: true}); return err },
						"append":   func() error { _, err := c.client.Append(w.ctx, id, 0, script.deltas[0]); return err },
						"flush":    func() error { _, err := c.client.Flush(w.ctx, id); return err },
						"snapshot": func() error { _, err := c.client.Snapshot(w.ctx, id); return err },
						"attach":   func() error { return w.glance(c, id) },
					} {
						began := time.Now()
						_ = do()
						if took := time.Since(began); took > callTime {
							w.t.Errorf("%s: %s took %v", id, what, took)
						}
						if what == "attach" {
							time.Sleep(2 * actor.DefaultAttachLinger) // for it to end
						}
						most = max(most, w.hops(id, what))
					}
					c.close()
				}
			}
		}
		if len(digests) <= 4 {
			w.t.Error("the rings did not differ")
		}
		if most < 2 {
			w.t.Error("nothing was sent on")
		}
		var counted float64
		for _, m := range w.members {
			counted += m.metric("rillkeep_ring_differs_total")
		}
		if said := w.log.differing(); said == 0 || float64(said) != counted {
			w.t.Errorf("that rings differ was said %d times, and counted %v times", said, counted)
		}
		w.net.Heal()
		w.agree(30 * time.Second)
		for _, id := range ids {
			if h := w.judge.of(id); h.opens > 1 {
				w.t.Errorf("%s was opened %d times", id, h.opens)
			}
			w.finish(id)
		}
	})
}

// glance reads a stream live as far as its first frame.
func (w *world) glance(c *caller, id string) error {
	for _, err := range c.client.Follow(w.ctx, id, 0, "live") {
		return err
	}
	return nil
}

// finish seals a stream that may be open.
func (w *world) finish(id string) {
	w.t.Helper()
	if w.judge.of(id).row.Status != plane.StatusStreaming {
		return
	}
	c := w.caller(0, false, nil)
	defer c.close()
	w.until(30*time.Second, "the end of "+id, func() bool {
		_, err := c.client.Close(w.ctx, id, wire.Close{})
		if err != nil {
			c.turn()
		}
		return err == nil
	})
}

// Members that do not hear a newcomer have another ring than those that do (8).
func TestTwoThatBothThinkThatTheyOwnANewStreamOpenItOnce(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1, 2}, func(w *world) {
		w.start(4)
		w.isolate(w.members[3])
		time.Sleep(15 * time.Second)
		first, second := w.contest("both", 25, 0, 3)
		if first == 0 || second == 0 {
			w.t.Errorf("one won %d, the other %d", first, second)
		}
		w.net.Heal()
		w.agree(30 * time.Second)
	})
}

func TestRingsAreOneAgainAfterTheLastFault(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1, 2}, func(w *world) {
		w.start(5)
		w.load(2, 400, 300*time.Millisecond, "auto")
		for range 3 {
			switch m := w.members[w.rng.IntN(5)]; w.rng.IntN(4) {
			case 0:
				w.cut(1+w.rng.IntN(4), w.rng.IntN(2) == 0)
			case 1:
				m.freeze()
			case 2:
				w.disagree()
			case 3:
				m.store.Cut()
			}
			time.Sleep(time.Duration(5+w.rng.IntN(20)) * time.Second)
			w.net.Heal()
			for _, m := range w.members {
				m.thaw(w.rng.IntN(2) == 0)
			}
			w.agree(40 * time.Second)
		}
		w.settle()
	})
}
