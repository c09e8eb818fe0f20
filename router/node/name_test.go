package node

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/storetest"
)

func TestANodeDoesNotWaitForTheLeasesOfItsEarlierRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := storetest.NewSharedMemory(nil)
		db.EditLease(store.Node{Name: "n1", Incarnation: "before"}, func(l *storetest.Lease) { l.Expires = time.Now().Add(time.Hour) })
		n := &Node{store: db.Node(), log: slog.New(slog.DiscardHandler)}
		n.base = t.Context()
		db.Rows().Hang(true)
		began := time.Now()
		if err := n.supersede(t.Context(), "n1", "now"); err != nil || time.Since(began) != supersedeTime {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		db.Rows().Clear()
		if err := n.supersede(t.Context(), "n1", "now"); err != nil || db.Leases()[0].Expires.After(time.Now()) {
			t.Errorf("%v, %+v", err, db.Leases())
		}
	})
}

func TestANodeThatLostItsNameDoesNotStart(t *testing.T) {
	db := storetest.NewSharedMemory(nil)
	if err := db.Open(t).TakeName(context.Background(), "n1"); err != nil {
		t.Fatal(err)
	}
	n := &Node{store: db.Open(t), log: slog.New(slog.DiscardHandler), base: t.Context()}
	if err := n.supersede(t.Context(), "n1", "now"); !errors.Is(err, store.ErrNameInUse) {
		t.Errorf("got %v", err)
	}
}
