package clustertest

import (
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

// What the frozen owner was about to write reaches the store when it goes on, after the
// sweep: nothing of it may have an effect, which the judge sees (O).
func TestAnOwnerThatWasFrozenForLongerThanItsLeaseWritesNothingMore(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1, 2}, func(w *world) {
		w.start(4)
		w.load(5, 100, 200*time.Millisecond, "auto")
		time.Sleep(3*time.Second + time.Duration(w.rng.IntN(1000))*time.Millisecond)
		at := w.hosts()
		frozen := at[w.producers[0].id]
		frozen.freeze()
		time.Sleep(orphanTime + time.Duration(w.rng.IntN(20))*time.Second)
		for id, m := range at {
			if m == frozen && !w.judge.of(id).row.Status.Ended() {
				w.t.Errorf("%s is not sealed", id)
			}
		}
		w.more("auto")
		frozen.thaw(true)
		thawed := time.Now()
		w.agree(30 * time.Second)
		w.more("auto")
		w.settle()
		w.ended(at, frozen)
		late := 0
		for _, c := range w.db.Rows().Calls() {
			if c.Kind == "append" && at[c.ID] == frozen && c.At.After(thawed) {
				late++
			}
		}
		if late == 0 {
			w.t.Error("it had nothing to write")
		}
	})
}

// A pause within the lease costs nobody anything.
func TestAnOwnerThatWasFrozenForAMomentGoesOn(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1, 2}, func(w *world) {
		w.start(3)
		w.load(4, 80, 200*time.Millisecond, "auto")
		time.Sleep(3 * time.Second)
		frozen, _ := w.host(w.producers[0].id)
		frozen.freeze()
		time.Sleep(4 * time.Second)
		frozen.thaw(true)
		w.agree(30 * time.Second)
		w.settle()
		if moves := w.moved(); moves != 0 {
			w.t.Errorf("%d streams changed hands", moves)
		}
	})
}

// Its seal was on its way when it was frozen, and arrives when the row has ended (5).
func TestASealThatArrivesAfterTheSweepChangesNothing(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1, 2}, func(w *world) {
		w.start(3)
		p := w.produce("s", 0, 40, 20*time.Millisecond)
		p.hold = make(chan struct{})
		w.open("s")
		w.read("s", 0, "auto", 0)
		w.read("s", 1, "auto", 0)
		w.until(10*time.Second, "text", func() bool { return w.judge.of("s").row.Seq > 300 })
		owner, _ := w.host("s")
		time.Sleep(time.Second) // the rest is durable
		whole := w.judge.of("s").row.Seq
		owner.store.Freeze()
		close(p.hold)
		time.Sleep(time.Second)
		owner.freeze()
		w.until(orphanTime, "the sweep", func() bool { return w.judge.of("s").row.Status.Ended() })
		owner.thaw(true)
		w.settle()
		if row := w.judge.of("s").row; row.Status != plane.StatusInterrupted || row.Seq != whole {
			w.t.Errorf("it ended %s at %d of %d", row.Status, row.Seq, whole)
		}
		seals := 0
		for _, c := range w.db.Rows().Calls() {
			if c.Kind == "seal" {
				seals++
			}
		}
		if seals == 0 {
			w.t.Error("no seal arrived")
		}
	})
}

// quiet opens a stream that is durable and read by every node, and whose producer holds
// on, until it is let go.
func (w *world) quiet(id string) *producer {
	w.t.Helper()
	p := w.produce(id, 0, 20, 20*time.Millisecond)
	p.hold = make(chan struct{})
	w.open(id)
	time.Sleep(3 * time.Second) // all is durable
	for at := range w.members {
		w.readBy(id, at, "auto", 0, true)
	}
	time.Sleep(time.Second)
	return p
}

// It has nothing to write that would tell it that its streams have been sealed.
func TestReadersOfAnOwnerThatWasFrozenAndHasNothingToWriteAreTold(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1}, func(w *world) {
		w.start(3)
		p := w.quiet("s")
		owner, _ := w.host("s")
		owner.freeze()
		w.until(orphanTime, "the sweep", func() bool { return w.judge.of("s").row.Status.Ended() })
		owner.thaw(true)
		for _, r := range w.readers {
			w.until(20*time.Second, "the end of "+r.name, func() bool { return isClosed(r.ended) })
		}
		close(p.hold)
	})
}
