package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/lease"
	"rillkeep.dev/rillkeep/store/storetest"
)

// guarded runs a test with a store behind the guard of a lease, and a stream
// "s" in it.
func guarded(t *testing.T, test func(t *testing.T, db *database, s store.Store, behind *storetest.Memory)) {
	t.Helper()
	kept(t, nil, func(t *testing.T, db *database, k *lease.Keeper) {
		behind := storetest.NewMemory()
		test(t, db, k.Guard(behind), behind)
	})
}

func lose(db *database) {
	db.set(func(d *database) { d.down = errors.New("down") })
	pass(11 * time.Second)
}

func TestWithoutALeaseNothingIsWrittenAndAllIsRead(t *testing.T) {
	guarded(t, func(t *testing.T, db *database, s store.Store, _ *storetest.Memory) {
		ctx := t.Context()
		row, err := s.Open(ctx, plane.Claim{ID: "s", Node: "n1/boot1"})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Ping(ctx); err != nil {
			t.Error(err)
		}
		writes := map[string]func() error{
			"open": func() error {
				_, err := s.Open(ctx, plane.Claim{ID: "other", Node: "n1/boot1"})
				return err
			},
			"append": func() error {
				_, err := s.Append(ctx, plane.Slice{ID: "s", Token: row.Token, Seq: 1, Text: "x"})
				return err
			},
			"seal": func() error {
				_, err := s.Seal(ctx, plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, From: 1, Seq: 1, Text: "x"})
				return err
			},
			"ping": func() error { return s.Ping(ctx) },
		}
		lose(db)
		for name, write := range writes {
			if err := write(); !errors.Is(err, store.ErrNoLease) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got, err := s.Read(ctx, "s"); err != nil || got != row {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := s.Read(ctx, "other"); !errors.Is(err, plane.ErrNotFound) {
			t.Errorf("the other: %v", err)
		}
		if got, err := s.Cancel(ctx, "s"); err != nil || !got.Cancel { // by whoever
			t.Errorf("%+v, %v", got, err)
		}
		db.set(func(d *database) { d.down = nil })
		pass(2 * time.Second)
		for _, name := range []string{"open", "append", "seal", "ping"} {
			if err := writes[name](); err != nil {
				t.Errorf("%s with a lease: %v", name, err)
			}
		}
	})
}

func TestAStreamKeepsItsTextWithoutALeaseAndGoesOn(t *testing.T) {
	guarded(t, func(t *testing.T, db *database, s store.Store, behind *storetest.Memory) {
		stream, err := plane.Open(t.Context(), plane.Config{Store: s}, plane.Claim{ID: "s", Node: "n1/boot1"})
		if err != nil {
			t.Fatal(err)
		}
		push(t, stream, "with a lease, ")
		flush(t, stream, nil)
		lose(db)
		push(t, stream, "without one, ")
		flush(t, stream, store.ErrNoLease)
		if st := stream.State(); st.Status != plane.StatusStreaming || st.Durable != 14 || st.Seq != 27 {
			t.Errorf("%+v", st)
		}
		db.set(func(d *database) { d.down = nil })
		pass(time.Minute) // one attempt a step of the policy
		if st := stream.State(); st.Durable != 27 {
			t.Errorf("it is not durable by itself: %+v", st)
		}
		push(t, stream, "and again.")
		if _, err := stream.Close(t.Context()); err != nil {
			t.Error(err)
		}
		page, err := behind.Text(t.Context(), "s", 0, 0)
		if err != nil || page.Text != "with a lease, without one, and again." || page.Status != plane.StatusComplete {
			t.Errorf("%+v, %v", page, err)
		}
	})
}

func TestAStreamThatWasSweptMeanwhileIsFenced(t *testing.T) {
	guarded(t, func(t *testing.T, db *database, s store.Store, behind *storetest.Memory) {
		stream, err := plane.Open(t.Context(), plane.Config{Store: s}, plane.Claim{ID: "s", Node: "n1/boot1"})
		if err != nil {
			t.Fatal(err)
		}
		push(t, stream, "durable")
		flush(t, stream, nil)
		lose(db)
		behind.Edit("s", func(r *storetest.Row) { r.Status, r.Body, r.Chunks = plane.StatusInterrupted, "durable", nil }) // as a sweeper does
		db.set(func(d *database) { d.down = nil })
		pass(2 * time.Second)
		push(t, stream, " lost")
		flush(t, stream, plane.ErrFenced)
		page, err := behind.Text(t.Context(), "s", 0, 0)
		if err != nil || page.Text != "durable" || page.Status != plane.StatusInterrupted {
			t.Errorf("%+v, %v", page, err)
		}
	})
}

func TestAnOpenWithoutALeaseIsTriedNoLongerThanThePolicySays(t *testing.T) {
	guarded(t, func(t *testing.T, db *database, s store.Store, _ *storetest.Memory) {
		lose(db)
		began := time.Now()
		_, err := plane.Open(t.Context(), plane.Config{Store: s}, plane.Claim{ID: "s", Node: "n1/boot1"})
		if took := time.Since(began); !errors.Is(err, store.ErrNoLease) || took != 350*time.Millisecond {
			t.Errorf("%v after %v", err, took)
		}
	})
}

func push(t *testing.T, s *plane.Stream, text string) {
	t.Helper()
	if err := s.Push(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

func flush(t *testing.T, s *plane.Stream, want error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := s.Flush(ctx); !errors.Is(err, want) {
		t.Errorf("flush: %v, want %v", err, want)
	}
	synctest.Wait()
}
