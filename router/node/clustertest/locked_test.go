package clustertest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// I: more rows than are handed over at once are locked by others for most of a drain.
func TestLockedRowsKeepNoOtherStreamOfADrainingNode(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(w *world) {
		w.start(2)
		var ids []string
		for i := range 120 {
			ids = append(ids, fmt.Sprint("stream ", i))
			w.produce(ids[i], i%2, 60, time.Second)
		}
		w.open(ids...)
		time.Sleep(time.Second)
		leaves, others := w.host(ids[0])
		var free []string
		held := 0
		for _, id := range ids {
			switch host, _ := w.host(id); {
			case host != leaves:
			case held < 40:
				w.locked.Store(id, true)
				held++
			default:
				free = append(free, id)
			}
		}
		if held < 40 || len(free) < 5 {
			t.Fatalf("%d rows are held, %d are free", held, len(free))
		}
		unlocked := time.AfterFunc(12*time.Second, w.locked.Clear)
		defer unlocked.Stop()
		w.running.Go(leaves.drain)
		w.until(10*time.Second, "what is free has moved", func() bool {
			for _, id := range free {
				if !strings.HasPrefix(w.judge.of(id).row.Token, others[0].name+"/") {
					return false
				}
			}
			return true
		})
		w.settle()
		if moves := w.moved(); moves != held+len(free) {
			t.Errorf("%d streams changed hands of %d", moves, held+len(free))
		}
	})
}
