package clustertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store/storetest"
)

// handing starts members and streams, and answers a member that has some.
func (w *world) handing(members, streams int) (leaves *member) {
	w.t.Helper()
	w.start(members)
	w.load(streams, 200, 250*time.Millisecond, "auto")
	time.Sleep(2 * time.Second)
	leaves, _ = w.host(w.producers[0].id)
	return leaves
}

// at are the streams that a member has.
func (w *world) at(m *member) (ids []string) {
	for id, host := range w.hosts() {
		if host == m {
			ids = append(ids, id)
		}
	}
	return ids
}

// sealedBy fails the test unless streams end interrupted, with all that their producers
// were told was taken, while a drain goes on, and long before a sweep.
func (w *world) sealedBy(drains *member, ids []string) {
	w.t.Helper()
	began := time.Now()
	drains.drain()
	for _, id := range ids {
		if row := w.judge.of(id).row; row.Status != plane.StatusInterrupted {
			w.t.Errorf("%s is %s under %s after a drain of %v", id, row.Status, row.Token, time.Since(began))
		}
	}
}

// The one that could take them does not answer, and what it was asked comes to it when
// they have ended.
func TestStreamsWhoseTakerDoesNotAnswerEndWithTheDrain(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(taker, leaves *member){
		"its process stands still":  func(taker, _ *member) { taker.freeze() },
		"its store does not answer": func(taker, _ *member) { taker.store.Cut() },
		"the way to it is cut":      func(taker, leaves *member) { taker.w.net.Cut(leaves.wireIP(), taker.wireIP()) },
	} {
		t.Run(name, func(t *testing.T) {
			seeds(t, []uint64{1, 2}, func(w *world) {
				leaves := w.handing(2, 4)
				ids := w.at(leaves)
				taker := w.members[1-w.index(leaves)]
				time.AfterFunc(1200*time.Millisecond, func() { fault(taker, leaves) })
				w.sealedBy(leaves, ids)
				w.net.Heal()
				taker.thaw(true)
				w.settle()
				for _, id := range ids {
					if h := w.judge.of(id); h.row.Status != plane.StatusInterrupted || len(h.owners) != 1 {
						t.Errorf("%s is %s, owned by %v", id, h.row.Status, h.owners)
					}
				}
			})
		})
	}
}

// It has them, and its answers do not arrive: it keeps them (O).
func TestStreamsWhoseTakersAnswerIsLostGoOn(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1, 2}, func(w *world) {
		leaves := w.handing(2, 4)
		ids := w.at(leaves)
		taker := w.members[1-w.index(leaves)]
		time.AfterFunc(1400*time.Millisecond, func() { w.net.CutOneWay(taker.wireIP(), leaves.wireIP()) })
		leaves.drain()
		w.net.Heal()
		w.settle()
		if moves := w.moved(); moves != len(ids) {
			t.Errorf("%d streams changed hands of %d", moves, len(ids))
		}
	})
}

// given is how many rows are nobody's now.
func (w *world) given(ids []string) (n int) {
	for _, id := range ids {
		if w.judge.of(id).disowned() {
			n++
		}
	}
	return n
}

func (h history) disowned() bool {
	return plane.Row{Status: h.row.Status, Token: h.row.Token}.Disowned()
}

// One whose store does not answer costs no stream that another can take, though they
// are many more than are handed over at once.
func TestStreamsThatOneTakerDoesNotTakeGoToAnother(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(w *world) {
		w.start(3)
		var ids []string
		for i := range 600 {
			ids = append(ids, fmt.Sprint("stream ", i))
			w.produce(ids[i], i%3, 8, 5*time.Second)
		}
		w.open(ids...)
		leaves, _ := w.host(ids[0])
		ids = w.at(leaves)
		stuck := w.members[(w.index(leaves)+1)%3]
		time.AfterFunc(1200*time.Millisecond, stuck.store.Cut)
		time.AfterFunc(20*time.Second, func() { stuck.store.Heal(true) })
		w.running.Go(leaves.drain)
		w.until(drainTime, "all have moved", func() bool {
			for _, id := range ids {
				if token := w.judge.of(id).row.Token; token[0] == '/' || strings.HasPrefix(token, leaves.name+"/") {
					return false
				}
			}
			return true
		})
		w.settle()
		if moves := w.moved(); moves != len(ids) {
			t.Errorf("%d streams changed hands of %d", moves, len(ids))
		}
	})
}

// Nobody takes them back: they are the sweeper's.
func TestStreamsOfANodeThatDiesWhileItHandsThemOverAreSwept(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1, 2}, func(w *world) {
		leaves := w.handing(2, 4)
		ids := w.at(leaves)
		taker := w.members[1-w.index(leaves)]
		time.AfterFunc(1200*time.Millisecond, taker.freeze)
		w.running.Go(func() { _ = leaves.tryDrain() })
		w.until(10*time.Second, "rows are nobody's", func() bool { return w.given(ids) == len(ids) })
		leaves.kill()
		taker.thaw(true)
		w.settle()
		for _, id := range ids {
			if row := w.judge.of(id).row; row.Status != plane.StatusInterrupted && row.Status != plane.StatusComplete {
				t.Errorf("%s is %s", id, row.Status)
			}
		}
	})
}

// The database goes back behind a hand-over: the row is the former owner's, which lives,
// and has no such stream. The one that has it can't write (O), and it ends (L).
func TestAStreamThatTheStoreGaveBackToItsFormerOwnerEnds(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]bool{"and somebody reads it": true, "and nobody reads it": false} {
		t.Run(name, func(t *testing.T) {
			seeds(t, []uint64{1, 2}, func(w *world) {
				w.start(2)
				p := w.produce("s", 0, 20, 100*time.Millisecond)
				p.hold = make(chan struct{})
				w.open("s")
				if read {
					w.readBy("s", 0, "auto", 0, true)
					w.readBy("s", 1, "auto", 0, true)
				}
				time.Sleep(5 * time.Second)
				_, others := w.host("s")
				former, err := others[0].cluster()
				if err != nil {
					t.Fatal(err)
				}
				w.db.Edit("s", func(r *storetest.Row) { r.Token = former.Self + "/1" })
				c := w.caller(1-w.index(others[0]), true, nil)
				if _, err := c.client.Close(w.ctx, "s", wire.Close{}); err == nil { // once, and no more
					t.Error("it was sealed")
				}
				c.close()
				w.until(10*time.Second, "its end", func() bool { return w.judge.of("s").row.Status.Ended() })
				close(p.hold)
				if row := w.judge.of("s").row; row.Token != former.Self+"/1" || row.Status != plane.StatusInterrupted {
					t.Errorf("it ended %s under %s", row.Status, row.Token)
				}
			})
		})
	}
}
