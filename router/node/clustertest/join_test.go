package clustertest

import (
	"fmt"
	"testing"
	"time"
)

// load starts streams and readers of each through every member: most of them later, at
// random offsets of what is produced by then.
func (w *world) load(streams, deltas int, pause time.Duration, selectors ...string) {
	var ids []string
	for i := range streams {
		id := fmt.Sprintf("stream %d", i)
		w.produce(id, i%len(w.members), deltas, pause)
		ids = append(ids, id)
	}
	w.open(ids...)
	for _, id := range ids {
		for at, m := range w.members {
			if !m.dead {
				w.read(id, at, selectors[w.rng.IntN(len(selectors))], 0)
			}
		}
	}
}

// more adds a reader of each stream through every living member, at an offset that lies
// within the durable text.
func (w *world) more(selectors ...string) {
	var ids []string
	for _, p := range w.producers {
		ids = append(ids, p.id)
	}
	for _, p := range w.survivors {
		ids = append(ids, p.id)
	}
	for _, id := range ids {
		row := w.judge.of(id).row
		for at, m := range w.members {
			if !m.dead {
				w.read(id, at, selectors[w.rng.IntN(len(selectors))], w.rng.Int64N(row.Seq+1))
			}
		}
	}
}

func TestLiveStreamsStayWhereTheyAreWhenNodesJoin(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1, 2}, func(w *world) {
		w.start(2)
		w.load(5, 60, 150*time.Millisecond, "auto", "live")
		hosts := map[string]string{}
		for _, p := range w.producers {
			hosts[p.id] = w.judge.of(p.id).row.Token
		}
		for range 3 {
			time.Sleep(time.Second)
			w.join()
			w.more("auto", "durable")
		}
		w.agree(10 * time.Second)
		w.settle()
		for id, token := range hosts {
			if h := w.judge.of(id); h.row.Token != token || h.opens != 1 {
				w.t.Errorf("%s was at %s, and has been at %v", id, token, h.owners)
			}
		}
		w.unseen()
	})
}
