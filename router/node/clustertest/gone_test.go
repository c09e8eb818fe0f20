package clustertest

import (
	"testing"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
)

// silence is how long a stream may have nobody who produces it, at most.
const silence = actor.DefaultProducerTimeout*5/4 + 30*time.Second

// silenced fails the test unless a stream ends interrupted for want of a producer, that
// long from now, with all that was durable or is here.
func (w *world) silenced(id string, seq int64) {
	w.t.Helper()
	took := w.until(silence, "the end of "+id, func() bool { return w.judge.of(id).row.Status.Ended() })
	if row := w.judge.of(id).row; row.Status != plane.StatusInterrupted || row.Seq != seq {
		w.t.Errorf("%s ended %s at %d of %d", id, row.Status, row.Seq, seq)
	}
	if took < actor.DefaultProducerTimeout-5*time.Second {
		w.t.Errorf("%s ended after %v", id, took)
	}
}

// Whoever has the stream by then sees to it.
func TestAStreamWhoseProducerIsGoneEndsInTimeWhoeverHasIt(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]func(w *world, p *survivor, owner *member){
		"who opened it": func(*world, *survivor, *member) {},
		"who adopted it": func(w *world, _ *survivor, owner *member) {
			owner.drain()
			w.again(owner)
		},
		"who took it over": func(w *world, _ *survivor, owner *member) {
			owner.kill()
			w.until(2*lease10, "it is taken over", func() bool { return len(w.judge.of("s").origins) == 1 })
			time.Sleep(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for how, leave := range map[string]func(w *world, p *survivor){
				"it ends":          func(_ *world, p *survivor) { p.stop() },
				"its machine does": func(w *world, _ *survivor) { w.makers.Crash() },
			} {
				t.Run(how, func(t *testing.T) {
					seeds(t, []uint64{1, 2}, func(w *world) {
						w.h2 = true // as in other protocols the kernel would say that a machine is gone
						w.start(3)
						p, owner := w.placed("s", name == "who adopted it", 600, 100*time.Millisecond)
						time.Sleep(2 * time.Second)
						move(w, p, owner)
						time.Sleep(time.Second)
						leave(w, p)
						time.Sleep(2 * time.Second) // what it said is there
						seq := w.judge.of("s").row.Seq
						w.silenced("s", seq)
						w.survivors = nil
						p.stop()
						w.settle()
					})
				})
			}
		})
	}
}

// It may say nothing for as long as it is there, by a pump or by its word.
func TestASilentProducerThatIsThereKeepsItsStream(t *testing.T) {
	t.Parallel()
	t.Run("by its pump", func(t *testing.T) {
		seeds(t, []uint64{1, 2}, func(w *world) {
			w.start(3)
			s := newScript(w.rng, 20)
			w.judge.expect("s", s)
			p := w.produces("s", "p", 0)
			w.follow("s")
			w.say(p, s.deltas[:10], 20)
			time.Sleep(5 * silence)
			w.say(p, s.deltas[10:], 20)
			if sealed, err := p.Close(w.ctx); err != nil || sealed.Status != plane.StatusComplete {
				w.t.Errorf("sealed %+v, %v", sealed, err)
			}
			w.settle()
			w.taken("s", 0)
		})
	})
	t.Run("by its word", func(t *testing.T) {
		seeds(t, []uint64{1, 2}, func(w *world) {
			w.start(3)
			s, opened := w.opened("s", 20)
			if status := w.appendAs(0, "s", opened.ProducerEpoch, 0, s.text(0, s.len())); status != 200 {
				w.t.Errorf("an append is answered %d", status)
			}
			for n := range 8 {
				time.Sleep(actor.DefaultProducerTimeout * 3 / 4)
				if status := w.post(n%3, "s", "keepalive?epoch="+opened.ProducerEpoch, ""); status != 200 {
					w.t.Errorf("keepalive is answered %d", status)
				}
			}
			if status := w.post(0, "s", "keepalive?epoch=1.9", ""); status == 200 {
				w.t.Error("anybody keeps it alive")
			}
			w.silenced("s", s.len())
			w.settle()
		})
	})
}
