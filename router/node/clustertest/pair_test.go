package clustertest

import (
	"strings"
	"testing"
	"time"
)

// attachTime is how long a reader may wait for its first frame, whatever the owner does:
// the attach window, and what lies around it.
const attachTime = 2*time.Second + 500*time.Millisecond

// prompt fails the test unless every reader had its first frame in time.
func (w *world) prompt() {
	w.t.Helper()
	for _, r := range w.readers {
		if s := r.state(); s.first == 0 || s.first > attachTime {
			w.t.Errorf("%s had its first frame after %v", r.name, s.first)
		}
	}
}

// Gossip says that all are alive, and two can't reach each other (17); or one of them
// not the other (18).
func TestReadersOfAPairThatIsCutFollowTheStore(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(w *world, a, b *member){
		"both ways":     func(w *world, a, b *member) { w.net.Cut(a.wireIP(), b.wireIP()) },
		"to the owner":  func(w *world, a, b *member) { w.net.CutOneWay(a.wireIP(), b.wireIP()) },
		"to the reader": func(w *world, a, b *member) { w.net.CutOneWay(b.wireIP(), a.wireIP()) },
	} {
		t.Run(name, func(t *testing.T) {
			seeds(t, []uint64{1, 2}, func(w *world) {
				w.start(3)
				w.load(2, 280, 250*time.Millisecond, "auto")
				w.stay()
				time.Sleep(2 * time.Second)
				owner, others := w.host(w.producers[0].id)
				cut(w, others[0], owner)
				time.Sleep(100 * time.Millisecond)
				w.stay() // who comes while it is cut, and nobody knows yet
				time.Sleep(20 * time.Second)
				w.stay() // and who comes when they do
				if behind := w.current(3 * time.Second); len(behind) > 0 {
					w.t.Errorf("while it is cut: %v", behind)
				}
				for _, m := range w.members {
					if c, err := m.cluster(); err != nil || len(c.Members) != 3 {
						w.t.Errorf("%s knows of %d members, %v", m.name, len(c.Members), err)
					}
				}
				w.net.Heal()
				w.until(40*time.Second, "all are live again", w.fresh)
				w.settle()
				w.prompt()
				w.unseen()
				if w.moved() != 0 {
					w.t.Error("streams changed hands")
				}
			})
		})
	}
}

// The owner takes connections and answers nothing (19), or is not there at all.
func TestAnAttachEndsInTimeWhateverTheOwnerDoes(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct{ begin, end func(*member) }{
		"it is deaf":    {func(m *member) { m.wire.Freeze() }, func(m *member) { m.wire.Thaw() }},
		"it is frozen":  {(*member).freeze, func(m *member) { m.thaw(true) }},
		"it is gone":    {(*member).vanish, func(*member) {}},
		"it was killed": {(*member).kill, func(*member) {}},
	} {
		t.Run(name, func(t *testing.T) {
			seeds(t, []uint64{1, 2}, func(w *world) {
				w.start(3)
				p := w.produce("s", 0, 100, 100*time.Millisecond)
				w.open("s")
				time.Sleep(2 * time.Second)
				owner, others := w.host("s")
				fault.begin(owner)
				for range 10 {
					for _, m := range others {
						w.readBy("s", w.index(m), "auto", w.rng.Int64N(w.judge.of("s").row.Seq+1), true)
						w.readBy("s", w.index(m), "durable", 0, true)
					}
					time.Sleep(time.Duration(w.rng.IntN(1500)) * time.Millisecond)
				}
				time.Sleep(5 * time.Second)
				w.prompt()
				fault.end(owner)
				w.settle()
				_ = p
			})
		})
	}
}

// At default settings: a stream whose model thinks for minutes is silent, and its
// attaches are not.
func TestASilentStreamStaysAttached(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1}, func(w *world) {
		w.ping = 15 * time.Second
		w.start(3)
		p := w.produce("s", 0, 10, 50*time.Millisecond)
		p.hold = make(chan struct{})
		w.open("s")
		for at := range w.members {
			w.readBy("s", at, "live", 0, true)
		}
		time.Sleep(2 * time.Minute)
		close(p.hold)
		w.settle()
		w.unseen()
		if lines := w.log.tail(1000); strings.Contains(lines, "relay failed") {
			w.t.Error("an attach was lost")
		}
	})
}

// A snapshot is no better than an attach: where the owner does not say in time what is
// produced, what is durable is answered.
func TestASnapshotIsAnsweredInTimeWhateverTheOwnerDoes(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(w *world) {
		w.start(3)
		w.produce("s", 0, 100, 100*time.Millisecond)
		time.Sleep(3 * time.Second)
		owner, others := w.host("s")
		owner.freeze()
		c := w.caller(w.index(others[0]), true, nil)
		defer c.close()
		began := time.Now()
		snap, err := c.client.Snapshot(w.ctx, "s")
		if took := time.Since(began); err != nil || snap.Seq == 0 || took > 2500*time.Millisecond {
			t.Errorf("%d units after %v, %v", snap.Seq, took, err)
		}
		owner.thaw(true)
	})
}
