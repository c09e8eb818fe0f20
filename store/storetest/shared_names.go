package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

// contest lets nodes open the same streams at the same moment (O).
func contest(t *testing.T, db Database) {
	stores := []SharedStore{db.Open(t), db.Open(t), db.Open(t)}
	for n := range 50 {
		id := fmt.Sprint("s", n)
		rows, errs := make([]plane.Row, len(stores)), make([]error, len(stores))
		ctx := bounded(t)
		var all sync.WaitGroup
		for i, s := range stores {
			claim := plane.Claim{ID: id, Node: fmt.Sprintf("n%d/boot1", i)}
			all.Go(func() {
				for rows[i], errs[i] = s.Open(ctx, claim); errors.Is(errs[i], store.ErrBusy); {
					rows[i], errs[i] = s.Open(ctx, claim)
				}
			})
		}
		all.Wait()
		won := 0
		for i, err := range errs {
			switch {
			case err == nil:
				won++
				equal(t, rows[i], must(stores[0].Read(bounded(t), id))(t))
			case !errors.Is(err, plane.ErrHeld) && !errors.Is(err, plane.ErrLostRace):
				t.Errorf("%s, node %d: %v", id, i, err)
			}
		}
		equal(t, won, 1)
	}
}

func wantInUse(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrNameInUse) {
		t.Errorf("got %v, want %v", err, store.ErrNameInUse)
	}
}

// supersede takes a name as a node's new run does.
func supersede(t *testing.T, s SharedStore, node, incarnation string) {
	t.Helper()
	if err := s.Supersede(bounded(t), node, incarnation); err != nil {
		t.Fatal(err)
	}
}

func nameInUse(t *testing.T, db Database) {
	first, second := db.Open(t), db.Open(t)
	supersede(t, first, "n1", "boot1")
	if _, err := first.Renew(bounded(t), runOf("n1"), time.Hour); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		wantInUse(t, second.Supersede(bounded(t), "n1", "boot2"))
		equal(t, must(second.Nodes(bounded(t)))(t), []store.Node{runOf("n1")})
	}
	supersede(t, first, "n1", "boot1")
	supersede(t, second, "n2", "boot1")
	if err := first.Close(bounded(t)); err != nil {
		t.Fatal(err)
	}
	supersede(t, second, "n1", "boot2")
	equal(t, len(must(second.Nodes(bounded(t)))(t)), 0)
}

func nameLost(t *testing.T, db Database) {
	first, second := db.Open(t), db.Open(t)
	if err := first.TakeName(bounded(t), "n1"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		db.EndNames()
		if _, err := first.Renew(bounded(t), runOf("n1"), time.Hour); err != nil {
			t.Error(err)
		}
		wantInUse(t, second.TakeName(bounded(t), "n1"))
	}
}

func nameOfAnother(t *testing.T, db Database) {
	first, second := db.Open(t), db.Open(t)
	if err := first.TakeName(bounded(t), "n1"); err != nil {
		t.Fatal(err)
	}
	db.EndNames()
	supersede(t, second, "n1", "boot2")
	for range 2 {
		_, err := first.Renew(bounded(t), runOf("n1"), time.Hour)
		wantInUse(t, err)
	}
	equal(t, len(must(second.Nodes(bounded(t)))(t)), 0)
	db.EndNames()
	if _, err := first.Renew(bounded(t), runOf("n1"), time.Hour); err != nil {
		t.Error(err)
	}
}

func nameInVain(t *testing.T, db Database) {
	first, second := db.Open(t), db.Open(t)
	supersede(t, first, "n1", "boot1")
	ended, end := context.WithCancel(t.Context())
	end()
	for range 10 {
		for _, s := range []SharedStore{first, second} {
			if err := s.Supersede(ended, "n1", "boot1"); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		}
	}
	supersede(t, first, "n1", "boot1")
	wantInUse(t, second.Supersede(bounded(t), "n1", "boot2"))
}

// The leases of earlier runs are over from then on, and no other: of names that only
// look like it, and of those that were over before.
func nameSupersedes(t *testing.T, db Database) {
	s := db.Open(t)
	now := store.Node{Name: "n1", Incarnation: "boot2"}
	others := []store.Node{now, {Name: "n1%", Incarnation: "boot1"}, runOf("n11"), runOf("n2"), runOf("n_")}
	for _, n := range append(others, runOf("n1"), store.Node{Name: "n1", Incarnation: "boot22"}) {
		if _, err := s.Renew(bounded(t), n, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-time.Hour).Truncate(time.Second)
	db.EditLease(store.Node{Name: "n1", Incarnation: "boot0"}, func(l *Lease) { l.Expires = long })
	for range 2 {
		supersede(t, s, "n1", "boot2")
		equal(t, must(s.Nodes(bounded(t)))(t), others)
	}
	for _, l := range db.Leases() {
		if over := time.Since(l.Expires); l.Incarnation == "boot0" && !l.Expires.Equal(long) || l.Incarnation == "boot22" && over > time.Minute {
			t.Errorf("that of %s is over for %v", l.Incarnation, over)
		}
	}
	for _, name := range []string{"", "a/b"} {
		for _, run := range []store.Node{{Name: name, Incarnation: "boot"}, {Name: "n1", Incarnation: name}} {
			if err := s.Supersede(bounded(t), run.Name, run.Incarnation); err == nil {
				t.Errorf("%+v: no error", run)
			}
		}
	}
}
