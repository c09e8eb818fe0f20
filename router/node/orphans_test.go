package node

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

func TestOrphansAreSealedInCallsThatEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := storetest.NewMemory()
		rows.Edit("m1", func(r *storetest.Row) { r.Status, r.Token, r.Epoch = plane.StatusStreaming, "n1/before/1", 1 })
		rows.Hang(true)
		n := &Node{store: rows, log: slog.New(slog.DiscardHandler)}
		n.base, n.stop = context.WithCancel(t.Context())
		began := time.Now()
		n.sealOrphans(t.Context(), "n1", "now")
		if took := time.Since(began); took > orphanWait {
			t.Errorf("the node waits for it for %v", took)
		}
		time.Sleep(10 * time.Minute)
		if calls := rows.Calls(); len(calls) == 0 {
			t.Error("the store is waited for for ever")
		}
		rows.Clear()
		time.Sleep(time.Minute)
		if row, _ := rows.Row("m1"); row.Status != plane.StatusInterrupted {
			t.Errorf("it is %s when the store is back", row.Status)
		}
		n.stop()
		if err := n.serving.Wait(); err != nil {
			t.Error(err)
		}
	})
}
