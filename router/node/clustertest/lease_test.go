package clustertest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store/storetest"
)

const (
	// awayTime is how long after the cut of its store a node may own streams by the
	// rings of others: the time for which it trusts its lease, and what gossip takes.
	awayTime = 8*time.Second + 1500*time.Millisecond

	// comeTime is how long it takes, once its store is back, to own streams again.
	comeTime = 10 * time.Second
)

// opens opens new streams, by each member as many, and answers where they are. All
// must be open at the first try.
func (w *world) opens(prefix string, each int) (ids []string, at map[*member]int) {
	w.t.Helper()
	at = map[*member]int{}
	for i := range w.members {
		c := w.caller(i, true, nil)
		for n := range each {
			id := fmt.Sprintf("%s %d by %s", prefix, n, w.members[i].name)
			w.judge.expect(id, newScript(w.rng, 1))
			if _, err := c.client.Open(w.ctx, id, wire.Open{}); err != nil {
				w.t.Errorf("open %s: %v", id, err)
				continue
			}
			host, _ := w.host(id)
			at[host]++
			ids = append(ids, id)
		}
		c.close()
	}
	return ids, at
}

// turns is how often a member was seen by another to change its state.
func (w *world) turns(m, by *member) (n int) {
	for line := range strings.Lines(w.log.tail(1 << 20)) {
		if strings.Contains(line, "ring: member name="+m.name+"/") && strings.Contains(line, " "+by.name+" ") {
			n++
		}
	}
	return n
}

func TestANodeWithoutItsStoreIsOutOfTheRingUntilItIsBack(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1, 2}, func(w *world) {
		w.start(3)
		w.load(3, 200, 250*time.Millisecond, "auto")
		time.Sleep(time.Second)
		lonely, _ := w.host(w.producers[0].id)
		for round := range 2 {
			lonely.store.Cut()
			time.Sleep(awayTime)
			ids, at := w.opens(fmt.Sprintf("away %d", round), 8)
			if at[lonely] > 0 || len(at) != 2 {
				w.t.Errorf("new streams are at %v", at)
			}
			if why := lonely.unready(); !strings.Contains(why, "lease") {
				w.t.Errorf("it is ready: %s", why)
			}
			lonely.store.Heal(true)
			w.agree(comeTime)
			if why := lonely.unready(); why != "" {
				w.t.Errorf("it is not ready: %s", why)
			}
			more, at := w.opens(fmt.Sprintf("back %d", round), 8)
			if at[lonely] == 0 {
				w.t.Errorf("new streams are at %v", at)
			}
			for _, id := range append(ids, more...) {
				w.finish(id)
			}
			time.Sleep(3 * time.Minute) // past what it remembers of its losses
		}
		w.settle()
		if w.moved() != 0 {
			w.t.Error("streams changed hands")
		}
	})
}

// unready is why a member says that it is not ready; "" if it is.
func (m *member) unready() string {
	c := m.w.caller(m.w.index(m), true, nil)
	defer c.close()
	return c.ready()
}

// Nobody can do anything about it: what is live goes on, and who opens is told to try
// again.
func TestAStoreThatIsDownForAllEmptiesNoRing(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1, 2}, func(w *world) {
		w.start(3)
		w.load(3, 160, 250*time.Millisecond, "auto")
		time.Sleep(time.Second)
		before, err := w.members[0].cluster()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range w.members {
			m.store.Cut()
		}
		time.Sleep(2 * lease10)
		for i, m := range w.members {
			if c, err := m.cluster(); err != nil || c.Ring != before.Ring {
				w.t.Errorf("the ring of %s is %q, %v, and was %q", m.name, c.Ring, err, before.Ring)
			}
			c := w.caller(i, true, nil)
			id := "none at " + m.name
			w.judge.expect(id, newScript(w.rng, 1))
			_, err := c.client.Open(w.ctx, id, wire.Open{})
			if answer, ok := errors.AsType[*wire.Error](err); !ok || answer.Status != 503 || !errors.Is(err, wire.ErrUnavailable) {
				w.t.Errorf("open at %s: %v", m.name, err)
			}
			c.close()
		}
		for _, m := range w.members {
			m.store.Heal(true)
		}
		w.agree(comeTime)
		w.settle()
		for _, p := range w.producers {
			if h := w.judge.of(p.id); h.row.Status != plane.StatusComplete || p.slowest > 2*callTime {
				w.t.Errorf("%s is %s; an append took %v", p.id, h.row.Status, p.slowest)
			}
		}
		for _, m := range w.members {
			if id := "none at " + m.name; w.judge.of(id).opens > 0 {
				w.finish(id)
			}
		}
	})
}

func TestANodeWhoseStoreComesAndGoesIsInTheRingOrNot(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(w *world) {
		w.start(3)
		shaky, watching := w.members[2], w.members[0]
		before := w.turns(shaky, watching)
		const losses = 40
		for range losses {
			shaky.store.Cut()
			time.Sleep(9 * time.Second)
			shaky.store.Heal(false)
			time.Sleep(6 * time.Second)
		}
		// Ten minutes: it would have been in and out 40 times.
		if turns := w.turns(shaky, watching) - before; turns < 2 || turns > losses/2 {
			t.Errorf("%d turns after %d losses", turns, losses)
		}
		w.agree(maxAway)
	})
}

// maxAway is the longest that a node stays away which has its lease.
const maxAway = time.Minute + comeTime

// The clock of a machine that was suspended stood still, and its node does not know that
// others took it for gone: its renewal is told.
func TestReadersOfANodeThatWasSuspendedAreTold(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1}, func(w *world) {
		w.start(3)
		p := w.quiet("s")
		w.db.StepClock(time.Minute)
		w.db.Edit("s", func(r *storetest.Row) { // a sweep does
			for _, chunk := range r.Chunks {
				r.Body += chunk.Text
			}
			r.Chunks, r.Status, r.Ended = nil, plane.StatusInterrupted, time.Now()
		})
		for _, r := range w.readers {
			w.until(6*time.Second, "the end of "+r.name, func() bool { return isClosed(r.ended) })
		}
		close(p.hold)
	})
}
