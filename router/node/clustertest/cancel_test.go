package clustertest

import (
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

// Whoever is asked, and whatever the hand-over has got to: a stop that was answered is
// one.
func TestAStopThatMeetsAHandOverIsNotLost(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1}, func(w *world) {
		w.start(3)
		w.load(12, 200, 250*time.Millisecond, "auto")
		time.Sleep(time.Second)
		leaves, _ := w.host(w.producers[0].id)
		w.db.Rows().Latency(300*time.Millisecond, 700*time.Millisecond)
		w.running.Go(leaves.drain)
		for _, p := range w.producers {
			at, wait := w.rng.IntN(3), time.Duration(w.rng.IntN(4000))*time.Millisecond
			w.running.Go(func() {
				c := w.caller(at, false, nil)
				defer c.close()
				sleep(w.ctx, wait)
				for {
					if _, err := c.client.Cancel(w.ctx, p.id); err == nil || w.ctx.Err() != nil {
						return
					}
					c.turn()
				}
			})
		}
		for _, p := range w.producers {
			w.until(40*time.Second, p.id+" ends", func() bool { return w.judge.of(p.id).row.Status.Ended() })
			if row := w.judge.of(p.id).row; row.Status != plane.StatusCancelled {
				t.Errorf("%s is %s", p.id, row.Status)
			}
		}
	})
}
