package clustertest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/wire"
)

// sides are the addresses of the members up to a number, and of the rest.
func (w *world) sides(of func(*member) []string, first int) (one, other []string) {
	for i, m := range w.members {
		if i < first {
			one = append(one, of(m)...)
		} else {
			other = append(other, of(m)...)
		}
	}
	return one, other
}

func (m *member) gossipIP() []string { return []string{m.gossip.IP()} }
func (m *member) wireIP() []string   { return []string{m.wire.IP()} }

// cut parts the first members from the rest in all that they say to each other; one
// way, only what the first say.
func (w *world) cut(first int, oneWay bool) {
	for _, of := range []func(*member) []string{(*member).gossipIP, (*member).wireIP} {
		one, other := w.sides(of, first)
		if oneWay {
			w.net.CutOneWay(one, other)
		} else {
			w.net.Cut(one, other)
		}
	}
}

// stay starts a reader of each stream through each member, which asks no other.
func (w *world) stay() {
	for _, p := range w.producers {
		for at := range w.members {
			w.readBy(p.id, at, "auto", 0, true)
		}
	}
}

// current reports whether all readers have, at a moment, what was durable some seconds
// ago, and says who has not.
func (w *world) current(lag time.Duration) (behind []string) {
	w.t.Helper()
	before := map[string]int64{}
	for _, p := range w.producers {
		before[p.id] = w.judge.of(p.id).row.Seq
	}
	time.Sleep(lag)
	for _, r := range w.readers {
		if s := r.state(); s.pos < before[r.id] && !isClosed(r.ended) {
			behind = append(behind, fmt.Sprintf("%s has %d of %d", r.name, s.pos, before[r.id]))
		}
	}
	return behind
}

// fresh reports whether all readers have text that is not durable yet: they read it
// live.
func (w *world) fresh() bool {
	for _, r := range w.readers {
		if !isClosed(r.ended) && r.state().pos <= w.judge.of(r.id).row.Seq {
			return false
		}
	}
	return true
}

func TestReadersOnBothSidesOfACutFollowTheStoreAndComeBack(t *testing.T) {
	t.Parallel()
	for name, oneWay := range map[string]bool{"both ways": false, "one way": true} {
		t.Run(name, func(t *testing.T) {
			seeds(t, []uint64{1, 2}, func(w *world) {
				w.start(4)
				w.load(2, 300, 250*time.Millisecond, "auto")
				w.stay()
				time.Sleep(time.Second)
				for range 2 {
					w.cut(1+w.rng.IntN(3), oneWay)
					time.Sleep(15 * time.Second) // links find out, members are dropped
					if behind := w.current(3 * time.Second); len(behind) > 0 {
						w.t.Errorf("while it is cut: %v", behind)
					}
					w.net.Heal()
					w.agree(30 * time.Second)
					w.until(20*time.Second, "all are live again", w.fresh)
				}
				w.settle()
				if w.moved() != 0 {
					w.t.Error("streams changed hands")
				}
				w.unseen()
			})
		})
	}
}

// contest has two members asked to open each of some streams at one moment, and
// answers how often each won.
func (w *world) contest(prefix string, streams, one, other int) (first, second int) {
	w.t.Helper()
	wins := [2]int{}
	var mu sync.Mutex
	for i := range streams {
		id := fmt.Sprintf("%s%d", prefix, i)
		w.judge.expect(id, newScript(w.rng, 1))
		winners := 0
		var both sync.WaitGroup
		for side, at := range []int{one, other} {
			c := w.caller(at, true, nil)
			wait := time.Duration(w.rng.IntN(6)) * time.Millisecond
			both.Go(func() {
				defer c.close()
				time.Sleep(wait)
				_, err := c.client.Open(w.ctx, id, wire.Open{})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					winners++
					wins[side]++
				case errors.Is(err, plane.ErrHeld), errors.Is(err, plane.ErrLostRace), errors.Is(err, plane.ErrOpenHere), errors.Is(err, wire.ErrUnavailable):
				default:
					w.t.Errorf("%s: %v", id, err)
				}
			})
		}
		both.Wait()
		if h := w.judge.of(id); winners != 1 || h.opens != 1 {
			w.t.Errorf("%s: %d winners, %d opens", id, winners, h.opens)
		}
	}
	for i := range streams {
		w.finish(fmt.Sprintf("%s%d", prefix, i))
	}
	return wins[0], wins[1]
}

func TestAStreamThatIsOpenedOnBothSidesOfACutIsOneSides(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1, 2}, func(w *world) {
		w.start(4)
		w.cut(2, false)
		time.Sleep(15 * time.Second) // each side is a cluster of its own
		first, second := w.contest("contested", 25, 0, 3)
		if first == 0 || second == 0 {
			w.t.Errorf("one side won %d, the other %d", first, second)
		}
		w.net.Heal()
		w.agree(30 * time.Second)
	})
}

// While it can't reach the store a node opens nothing, and its streams go on when it
// can; past the lease and the grace they are gone, and it is told so.
func TestANodeWithoutItsStoreOpensNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cut  time.Duration
		want plane.Status
	}{
		"for a while":       {20 * time.Second, plane.StatusComplete},
		"until it is swept": {orphanTime + 5*time.Second, plane.StatusInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			seeds(t, []uint64{1, 2}, func(w *world) {
				w.start(3)
				w.load(3, 280, 250*time.Millisecond, "auto")
				time.Sleep(2 * time.Second)
				at := w.hosts()
				lonely := at[w.producers[0].id]
				lonely.store.Cut()
				time.Sleep(lease10)
				c1 := w.caller(w.index(lonely), true, nil)
				for i := range 5 {
					id := fmt.Sprint("new", i)
					w.judge.expect(id, newScript(w.rng, 1))
					_, err := c1.client.Open(w.ctx, id, wire.Open{})
					if row := w.judge.of(id).row; err == nil && row.Token[:3] == lonely.name+"/" {
						w.t.Errorf("%s was opened there", id)
					}
				}
				c1.close()
				time.Sleep(c.cut - lease10)
				lonely.store.Heal(true)
				w.settle()
				for id, m := range at {
					row := w.judge.of(id).row
					if want := map[bool]plane.Status{true: c.want, false: plane.StatusComplete}[m == lonely]; row.Status != want {
						w.t.Errorf("%s at %s is %s, want %s", id, m.name, row.Status, want)
					}
				}
				for i := range 5 {
					w.finish(fmt.Sprint("new", i))
				}
			})
		})
	}
}

// lease10 is the time in which a node that can't renew its lease has lost it.
const lease10 = 10 * time.Second
