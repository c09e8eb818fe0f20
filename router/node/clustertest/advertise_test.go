package clustertest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/wire"
)

// A third member has the first one's address for requests: what the first asks of it
// comes back to itself, what the second asks to one who is not meant.
func TestAMemberThatAdvertisesAnothersAddressIsRefusedThereAndNothingGoesRound(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1, 2}, func(w *world) {
		w.poses = map[int]int{3: 1}
		w.start(3)
		const poser = 2
		var ids []string
		for i := 0; len(ids) < 4; i++ { // streams of the poser's, opened there
			id := fmt.Sprint("s", i)
			w.judge.expect(id, newScript(w.rng, 1))
			if err := w.timed(id, "open", poser, func(c *caller) error {
				_, err := c.client.Open(w.ctx, id, wire.Open{})
				return err
			}); err != nil {
				t.Fatalf("%s: the poser reaches the others: %v", id, err)
			}
			if hosting, _ := w.host(id); hosting == w.members[poser] {
				ids = append(ids, id)
			}
			defer w.finish(id)
		}
		for _, id := range ids {
			delta := w.judge.of(id).script.deltas[0]
			for _, at := range []int{0, 1} {
				if err := w.timed(id, "append", at, func(c *caller) error {
					_, err := c.client.Append(w.ctx, id, 0, delta)
					return err
				}); !errors.Is(err, wire.ErrUnavailable) {
					t.Errorf("%s: an append through member %d: %v", id, at, err)
				}
				r := w.readBy(id, at, "auto", 0, true)
				w.until(attachTime, "the first frame at "+r.name, func() bool { return r.state().first > 0 })
			}
			if err := w.timed(id, "append", poser, func(c *caller) error {
				_, err := c.client.Append(w.ctx, id, 0, delta)
				return err
			}); err != nil {
				t.Errorf("%s: an append at its own member: %v", id, err)
			}
			if err := w.timed(id, "cancel", 0, func(c *caller) error {
				_, err := c.client.Cancel(w.ctx, id)
				return err
			}); err != nil {
				t.Errorf("%s: a stop through another member: %v", id, err)
			}
			w.until(20*time.Second, "the stop gets to "+id, func() bool {
				c := w.caller(poser, true, nil)
				defer c.close()
				_, err := c.client.Append(w.ctx, id, 0, "")
				return errors.Is(err, plane.ErrCancelled)
			})
		}
		for _, m := range w.members[:poser] {
			if !strings.Contains(w.log.tail(1000), m.name+"    WARN  could not ask another node") {
				t.Errorf("%s does not say that it does not reach the poser", m.name)
			}
		}
		if !strings.Contains(w.log.tail(1000), "another answers at the peer's address") {
			t.Error("nobody says why")
		}
	})
}

// timed asks something of a member, and checks how long that takes and how far it goes.
func (w *world) timed(id, what string, at int, ask func(*caller) error) error {
	w.t.Helper()
	c := w.caller(at, true, nil)
	defer c.close()
	w.log.served(id)
	began := time.Now()
	err := ask(c)
	if took := time.Since(began); took > attachTime {
		w.t.Errorf("%s: %s at member %d took %v", id, what, at, took)
	}
	w.hops(id, what)
	return err
}
