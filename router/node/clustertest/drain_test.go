package clustertest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/wire"
)

// moved fails the test unless every stream was opened once and ended complete, and
// says how often streams changed hands.
func (w *world) moved() (moves int) {
	w.t.Helper()
	for _, p := range w.producers {
		h := w.judge.of(p.id)
		if h.opens != 1 || h.row.Epoch != 1 || h.row.Status != plane.StatusComplete || !p.sealed {
			w.t.Errorf("%s: %d opens, %s in epoch %d at %v; the producer: %v", p.id, h.opens, h.row.Status, h.row.Epoch, h.owners, p.refused)
		}
		moves += len(h.owners) - 1
	}
	return moves
}

// Readers through the node that leaves lose their connections when it is gone, and go on
// elsewhere.
var leaving = []string{"closed before the stream ended", "not reached"}

// starting is what a reader is told that comes to a node which is on its way back.
const starting = "node can't serve this now"

func TestADrainedNodeHandsItsStreamsOverAndNoReaderNotices(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1, 2}, func(w *world) {
		w.start(3)
		w.load(6, 100, 100*time.Millisecond, "auto")
		time.Sleep(time.Second)
		w.more("auto", "durable")
		before := 0
		leaves, _ := w.host(w.producers[0].id)
		for _, m := range w.hosts() {
			if m == leaves {
				before++
			}
		}
		leaves.drain()
		w.agree(5 * time.Second)
		w.more("auto")
		w.settle()
		if moves := w.moved(); moves != before {
			w.t.Errorf("%d streams changed hands of %d", moves, before)
		}
		w.unseen(leaving...)
		for _, p := range w.producers {
			if p.slowest > 2*time.Second {
				w.t.Errorf("%s: an append took %v", p.id, p.slowest)
			}
		}
	})
}

func TestARollingRestartOfFiveNodesLosesNothing(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1, 2}, func(w *world) {
		w.start(5)
		w.load(5, 480, 250*time.Millisecond, "auto")
		for i := range 5 {
			old := w.members[i]
			old.drain()
			time.Sleep(time.Second)
			w.again(old)
			w.agree(10 * time.Second)
			w.more("auto")
		}
		w.settle()
		if moves := w.moved(); moves < 3 {
			w.t.Errorf("%d streams changed hands", moves)
		}
		w.unseen(leaving...)
	})
}

// With nobody left to take it, a stream ends with all that was produced.
func TestNodesThatAllDrainWithoutReturnSealWhatNobodyTakes(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1}, func(w *world) {
		w.start(5)
		w.load(3, 600, 250*time.Millisecond, "auto")
		for _, m := range w.members {
			m.drain()
		}
		for _, p := range w.producers {
			row := w.judge.of(p.id).row
			if row.Status != plane.StatusInterrupted {
				w.t.Errorf("%s is %s", p.id, row.Status)
			}
		}
		w.again(w.members[0]) // for readers and producers to be told
		w.settle()
	})
}

// Who reads through the node that leaves reads on there, from the new owner, while the
// drain lasts; then elsewhere, from where it is.
func TestReadersOfADrainingNodeReadOnThereWhileItLasts(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1, 2}, func(w *world) {
		w.start(3)
		p := w.produce("s", 0, 400, 100*time.Millisecond)
		w.open("s")
		leaves, others := w.host("s")
		r := w.read("s", w.index(leaves), "auto", 0)
		time.Sleep(time.Second)
		began, drained := time.Now(), make(chan time.Duration, 1)
		w.running.Go(func() {
			leaves.drain()
			drained <- time.Since(began)
		})
		w.until(5*time.Second, "it is another's", func() bool { return len(w.judge.of("s").owners) == 2 })
		if took := time.Since(began); took < 1500*time.Millisecond {
			w.t.Errorf("it was another's after %v: the others had no time to hear of it", took)
		}
		for _, m := range others { // they knew before
			if c, err := m.cluster(); err != nil || c.Members[w.index(leaves)].Share > 0 {
				w.t.Errorf("to %s the ring is %+v, %v", m.name, c.Members, err)
			}
		}
		for time.Since(began) < drainTime/2 {
			before := r.state().reached
			time.Sleep(2 * time.Second)
			if s := r.state(); s.reached == before || len(s.lost) > 0 {
				w.t.Fatalf("after %v it has %d of what was %d, and lost its connection by %v", time.Since(began), s.reached, before, s.lost)
			}
		}
		if took := <-drained; took > drainTime {
			w.t.Errorf("the drain took %v", took)
		}
		time.Sleep(500 * time.Millisecond)
		for _, m := range others { // it said goodbye
			if c, err := m.cluster(); err != nil || len(c.Members) != 2 {
				w.t.Errorf("to %s the ring is %+v, %v", m.name, c.Members, err)
			}
		}
		at := r.state()
		if at.end.Kind != "" || isClosed(p.ended) {
			w.t.Errorf("when the node left, its reader had been told %+v", at.end)
		}
		w.settle()
		w.unseen("closed before the stream ended")
		if s := r.state(); len(s.lost) != 1 || w.moved() != 1 {
			w.t.Errorf("it lost its connection by %v", s.lost)
		}
	})
}

// From its first moment on a drain opens nothing: what the others, who do not know yet,
// send there to be opened they are told to open elsewhere, and nobody notices.
func TestADrainingNodeOpensNoStreamAndSaysWhoDoes(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1, 2}, func(w *world) {
		w.start(3)
		leaves := w.members[0]
		var ids []string
		first := w.caller(0, true, nil)
		for i := range 40 {
			ids = append(ids, fmt.Sprintf("before %d", i))
			w.judge.expect(ids[i], newScript(w.rng, 1))
			if _, err := first.client.Open(w.ctx, ids[i], wire.Open{}); err != nil {
				w.t.Fatal(err)
			}
		}
		w.isolate(leaves) // for a second nobody hears of the drain
		defer time.AfterFunc(time.Second, w.net.Heal).Stop()
		drained := make(chan struct{})
		w.running.Go(func() {
			leaves.drain()
			close(drained)
		})
		time.Sleep(10 * time.Millisecond)
		ready, err := (&http.Client{Transport: first.http}).Get("http://localhost:8080/readyz")
		if err != nil || ready.StatusCode != http.StatusServiceUnavailable {
			w.t.Errorf("whether it is ready: %+v, %v", ready, err)
		} else {
			_ = ready.Body.Close()
		}
		first.close()
		for began := time.Now(); time.Since(began) < 4*time.Second; time.Sleep(50 * time.Millisecond) {
			for at := range w.members {
				id := fmt.Sprintf("s%d-%d", len(ids), at)
				w.judge.expect(id, newScript(w.rng, 1))
				c := w.caller(at, true, nil)
				_, err := c.client.Open(w.ctx, id, wire.Open{})
				switch gone := errors.Is(err, client.ErrUnreached) && at == 0; {
				case gone:
				case err != nil:
					w.t.Errorf("%s, %v after its beginning: %v", id, time.Since(began), err)
				case strings.HasPrefix(w.judge.of(id).row.Token, leaves.name+"/"):
					w.t.Errorf("%s was opened where it has to go", id)
				}
				ids = append(ids, id)
				c.close()
			}
		}
		<-drained
		takers := map[string]bool{}
		for _, id := range ids {
			if h := w.judge.of(id); len(h.owners) == 2 { // the ring says who, and not one for all
				takers[h.owners[1][:2]] = true
			}
			w.finish(id)
		}
		if len(takers) != 2 {
			w.t.Errorf("what it had went to %v", takers)
		}
	})
}
