package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

// takeLeased is of all ways in which a lease is over, or not.
func takeLeased(t *testing.T, db Database) {
	s := db.Open(t)
	renew := func(node store.Node) {
		t.Helper()
		if _, err := s.Renew(bounded(t), node, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	for name, over := range map[string]func(node store.Node){
		"runs out": func(node store.Node) {
			db.EditLease(node, func(l *Lease) { l.Expires = time.Now().Add(-time.Second) })
		},
		"given up": func(node store.Node) {
			if err := s.Release(bounded(t), node); err != nil {
				t.Fatal(err)
			}
		},
		"superseded": func(node store.Node) { supersede(t, s, node.Name, "boot2") },
	} {
		owner := runOf(name)
		renew(owner)
		row := written(t, s, name, name, "abc")
		for token, by := range map[string]string{row.Token: heir, name + "/boot0/1": heir, heir + "/1": name + "/boot1", "": heir, row.Token + "/3": heir} {
			if _, err := s.TakeOver(bounded(t), token, plane.Claim{ID: name, Node: by}); !errors.Is(err, plane.ErrHeld) {
				t.Errorf("while the lease lasts, %q is told %v", token, err)
			}
		}
		equal(t, must(s.Read(bounded(t), name))(t), row)
		over(owner)
		if _, err := s.TakeOver(bounded(t), name+"/boot0/1", plane.Claim{ID: name, Node: heir}); !errors.Is(err, plane.ErrLostRace) {
			t.Errorf("with another token: %v", err)
		}
		renew(runOf("n2"))
		next := must(s.TakeOver(bounded(t), row.Token, plane.Claim{ID: name, Node: heir}))(t)
		equal(t, next.Token, heir+"/2/3")
		equal(t, must(s.TakeOver(bounded(t), row.Token, plane.Claim{ID: name, Node: heir}))(t), next)
		for _, token := range []string{row.Token, next.Token} {
			if _, err := s.TakeOver(bounded(t), token, plane.Claim{ID: name, Node: "n3/boot1"}); !errors.Is(err, plane.ErrHeld) {
				t.Errorf("of what has a new owner: %v", err)
			}
		}
	}
}

// Who is taken over is not swept, and who is swept is not taken over.
func takeAndSweep(t *testing.T, db Database) {
	s, other := db.Open(t), db.Open(t)
	const streams = 60
	rows := make([]plane.Row, streams)
	for n := range rows {
		rows[n] = written(t, s, "n1", fmt.Sprint("s", n), "abc")
	}
	over(db, runOf("n1"))
	steady(db, runOf("n2"))
	steady(db, sweeper)
	next, errs := make([]plane.Row, streams), make([]error, streams)
	count := 0
	ctx := bounded(t)
	var both sync.WaitGroup
	for n := range next {
		both.Go(func() {
			next[n], errs[n] = unlocked(func() (plane.Row, error) {
				return s.TakeOver(ctx, rows[n].Token, plane.Claim{ID: fmt.Sprint("s", n), Node: heir})
			})
		})
	}
	both.Go(func() {
		for range 5 { // what was locked is swept in the next round
			n, err := other.Sweep(ctx, sweeper, grace)
			if count += n; err != nil {
				t.Error(err)
			}
		}
	})
	both.Wait()
	swept := 0
	for n, err := range errs {
		id, status := fmt.Sprint("s", n), plane.StatusStreaming
		switch {
		case errors.Is(err, plane.ErrClosed):
			swept, status = swept+1, plane.StatusInterrupted
		case err != nil:
			t.Errorf("%s: %v", id, err)
		default:
			equal(t, must(s.Read(ctx, id))(t), next[n])
		}
		wantStream(t, s, id, status, "abc")
	}
	equal(t, swept, count)
	t.Logf("%d of %d were swept", swept, streams)
}

// An owner whose lease had run out looks, once it is renewed, which streams it has
// still: none of those is taken over after that.
func takeAndRenew(t *testing.T, db Database) {
	owner, other := db.Open(t), db.Open(t)
	kept := 0
	for n := range rounds {
		id, name := fmt.Sprint("s", n), fmt.Sprint("n", n+10)
		old := written(t, owner, name, id, "abc")
		over(db, runOf(name))
		ctx := bounded(t)
		var seen plane.Row
		var err error
		var both sync.WaitGroup
		both.Go(func() {
			<-time.After(rand.N(3 * time.Millisecond))
			_, err = unlocked(func() (plane.Row, error) { return other.TakeOver(ctx, old.Token, plane.Claim{ID: id, Node: heir}) })
		})
		both.Go(func() {
			<-time.After(rand.N(3 * time.Millisecond)) // so that either is first at times
			_, err := owner.Renew(ctx, runOf(name), time.Hour)
			if err != nil {
				t.Error(err)
			}
			if seen, err = owner.Read(ctx, id); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		switch {
		case seen.Token == old.Token:
			kept++
			if !errors.Is(err, plane.ErrHeld) {
				t.Errorf("the owner saw its row after the renewal, and the takeover was told %v", err)
			}
		case err != nil:
			t.Errorf("the row is lost to its owner, and the takeover was told %v", err)
		}
		equal(t, must(owner.Read(ctx, id))(t), seen)
	}
	t.Logf("%d of %d owners kept it", kept, rounds)
}

// Its epochs count for who uses the id again.
func takeDeleted(t *testing.T, db Database) {
	s := db.Open(t)
	row := written(t, s, "n1", "s", "abc")
	for _, by := range []string{"n2/boot1", "n3/boot1"} {
		row = must(s.TakeOver(bounded(t), row.Token, plane.Claim{ID: "s", Node: by}))(t)
	}
	sealed(t, s, plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, From: 3, Seq: 3, Text: "abc"})
	db.Edit("s", func(r *Row) { r.Ended = time.Now().Add(-48 * time.Hour) })
	equal(t, must(s.DeleteEnded(bounded(t), 24*time.Hour))(t), 1)
	next := must(s.Open(bounded(t), plane.Claim{ID: "s", Node: node}))(t)
	equal(t, next.Token, node+"/4")
}
