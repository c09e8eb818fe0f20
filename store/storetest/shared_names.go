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

func nameInUse(t *testing.T, db Database) {
	first, second := db.Open(t), db.Open(t)
	equal(t, must(first.Interrupt(bounded(t), "n1", "boot1"))(t), 0)
	row := written(t, first, "n1", "s", "abc")
	for range 2 {
		count, err := second.Interrupt(bounded(t), "n1", "boot2")
		wantInUse(t, err)
		equal(t, count, 0)
	}
	equal(t, must(first.Read(bounded(t), "s"))(t), row)
	equal(t, must(first.Interrupt(bounded(t), "n1", "boot1"))(t), 0)
	equal(t, must(second.Interrupt(bounded(t), "n2", "boot1"))(t), 0)
	if err := first.Close(bounded(t)); err != nil {
		t.Fatal(err)
	}
	equal(t, must(second.Interrupt(bounded(t), "n1", "boot2"))(t), 1)
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
	must(second.Interrupt(bounded(t), "n1", "boot2"))(t)
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
	must(first.Interrupt(bounded(t), "n1", "boot1"))(t)
	ended, end := context.WithCancel(t.Context())
	end()
	for range 10 {
		for _, s := range []store.Store{first, second} {
			if _, err := s.Interrupt(ended, "n1", "boot1"); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		}
	}
	must(first.Interrupt(bounded(t), "n1", "boot1"))(t)
	_, err := second.Interrupt(bounded(t), "n1", "boot2")
	wantInUse(t, err)
}

func nameSupersedes(t *testing.T, db Database) {
	s := db.Open(t)
	now := store.Node{Name: "n1", Incarnation: "boot2"}
	for _, n := range []store.Node{runOf("n1"), now, runOf("n2")} {
		if _, err := s.Renew(bounded(t), n, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	must(s.Interrupt(bounded(t), "n1", "boot2"))(t)
	equal(t, must(s.Nodes(bounded(t)))(t), []store.Node{now, runOf("n2")})
}
