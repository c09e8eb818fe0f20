package clustertest

import (
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/wire"
)

// What a frozen owner was about to do to the row of its stream, which it still takes
// for its own when it goes on.
var zombies = map[string]struct {
	kind string // of the call of the store
	do   func(w *world, owner *member, c *client.Client, script *script) error
}{
	"to append": {"append", func(w *world, _ *member, c *client.Client, script *script) error {
		_, err := c.Append(w.ctx, "s", 0, script.text(0, script.len()))
		return err
	}},
	"to seal": {"seal", func(w *world, _ *member, c *client.Client, _ *script) error {
		w.running.Go(func() { _, _ = c.Close(w.ctx, "s", wire.Close{}) })
		return nil
	}},
	"to hand over": {"disown", func(w *world, owner *member, _ *client.Client, _ *script) error {
		owner.dead = true
		w.running.Go(func() { _ = owner.tryDrain() })
		return nil
	}},
}

// O, where nothing but the owner token tells the two apart: the row that the frozen
// owner had is swept before it holds any text, opened elsewhere, and streaming there at
// the same length when the old owner's write arrives.
func TestAThawedOwnersWriteDoesNotReachItsSuccessorsRow(t *testing.T) {
	t.Parallel()
	for name, zombie := range zombies {
		t.Run(name, func(t *testing.T) {
			seeds(t, []uint64{1, 2, 3}, func(w *world) {
				w.start(3)
				script := newScript(w.rng, 5)
				w.judge.expect("s", script)
				first := w.caller(0, false, nil)
				defer first.close()
				if _, err := first.client.Open(w.ctx, "s", wire.Open{}); err != nil {
					w.t.Fatal(err)
				}
				owner, others := w.host("s")
				owner.store.Freeze()
				at := w.caller(w.index(owner), true, nil)
				defer at.close()
				if err := zombie.do(w, owner, at.client, script); err != nil {
					w.t.Fatal(err)
				}
				time.Sleep(4 * time.Second) // its write is out, and its lease lasts
				owner.freeze()
				w.until(orphanTime, "the sweep", func() bool { return w.judge.of("s").row.Status == plane.StatusInterrupted })

				c := w.caller(w.index(others[0]), true, nil)
				defer c.close()
				opened, err := c.client.Open(w.ctx, "s", wire.Open{})
				if err != nil || opened.Epoch != 2 {
					w.t.Fatalf("opened %+v, %v", opened, err)
				}
				r := w.readBy("s", w.index(others[0]), "auto", 0, true)
				owner.thaw(true)
				w.until(5*time.Second, "the late write", func() bool { return w.arrived(zombie.kind, "s") })
				if row := w.judge.of("s").row; row.Seq != 0 || row.Status != plane.StatusStreaming || row.Epoch != 2 {
					w.t.Errorf("the row is %s at %d in epoch %d", row.Status, row.Seq, row.Epoch)
				}

				if _, err := c.client.Append(w.ctx, "s", 0, script.text(0, script.len())); err != nil {
					w.t.Error(err)
				}
				if sealed, err := c.client.Close(w.ctx, "s", wire.Close{}); err != nil || sealed.Seq != script.len() || sealed.Status != plane.StatusComplete {
					w.t.Errorf("sealed %+v, %v", sealed, err)
				}
				w.until(settling, "the end of the reader", func() bool { return isClosed(r.ended) })
				if h := w.judge.of("s"); len(h.owners) != 2 || h.opens != 2 {
					w.t.Errorf("it was at %v after %d opens", h.owners, h.opens)
				}
			})
		})
	}
}

// arrived reports whether the store has answered a call of a kind.
func (w *world) arrived(kind, id string) bool {
	for _, c := range w.db.Rows().Calls() {
		if c.Kind == kind && c.ID == id {
			return true
		}
	}
	return false
}
