package postgres_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// writes are what is done to the stream "locked".
var writes = map[string]func(context.Context, store.Store) error{
	"append": func(ctx context.Context, s store.Store) error {
		_, err := s.Append(ctx, plane.Slice{ID: "locked", Token: token, Seq: 3, Text: "abc"})
		return err
	},
	"seal": func(ctx context.Context, s store.Store) error {
		_, err := s.Seal(ctx, plane.Seal{ID: "locked", Token: token, Status: plane.StatusComplete, Seq: 3, Text: "abc"})
		return err
	},
	"seal of what the database has in part": func(ctx context.Context, s store.Store) error {
		_, err := s.Seal(ctx, plane.Seal{ID: "locked", Token: token, Status: plane.StatusComplete, Base: 1, Seq: 3, Text: "bc"})
		return err
	},
	"cancel": func(ctx context.Context, s store.Store) error { _, err := s.Cancel(ctx, "locked"); return err },
	"disown": func(ctx context.Context, s store.Store) error {
		_, err := s.Disown(ctx, "locked", token, 1)
		return err
	},
	"take over": func(ctx context.Context, s store.Store) error {
		_, err := s.TakeOver(ctx, token, plane.Claim{ID: "locked", Node: "n2/boot1"})
		return err
	},
	"open": func(ctx context.Context, s store.Store) error {
		_, err := s.Open(ctx, plane.Claim{ID: "locked", Node: "n1/boot1"})
		return err
	},
}

// lockWait would show a call that waits for a lock.
const lockWait = "&lock_timeout=1min"

// Of one connection a call that waited for the row would leave nothing.
func TestALockedRowCostsNoOtherStreamItsConnection(t *testing.T) {
	t.Parallel()
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			s, db := open(t, url+lockWait+"&pool_max_conns=1"), pgtest.Pool(t, url)
			row := claim(t, s, "free")
			lockable(t, s, name)
			_, release := hold(t, db, "locked")

			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			errs := make([]error, 8)
			var all sync.WaitGroup
			for n := range errs {
				all.Go(func() { errs[n] = write(ctx, s) })
			}
			for range 20 {
				next, err := s.Append(ctx, plane.Slice{ID: "free", Token: token, From: row.Seq, Seq: row.Seq + 1, Text: "x"})
				if err != nil {
					t.Fatal(err)
				}
				row = next
			}
			all.Wait()
			for _, err := range errs {
				if !errors.Is(err, store.ErrBusy) || !strings.Contains(err.Error(), `"locked"`) {
					t.Errorf("got %v", err)
				}
			}
			release()
			if err := write(ctx, s); err != nil {
				t.Errorf("once it is free: %v", err)
			}
		})
	}
}

// lockable makes the row that a write wants.
func lockable(t *testing.T, s store.Store, write string) {
	t.Helper()
	row := claim(t, s, "locked")
	var err error
	switch {
	case write == "open":
		_, err = s.Seal(t.Context(), plane.Seal{ID: "locked", Token: row.Token, Status: plane.StatusComplete})
	case strings.Contains(write, "in part"):
		_, err = s.Append(t.Context(), plane.Slice{ID: "locked", Token: token, Seq: 1, Text: "a"})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// What changes nothing needs no lock, but for an append.
func TestALockedRowRefusesAsAnyOther(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url+lockWait), pgtest.Pool(t, url)
	row := claim(t, s, "s")
	hold(t, db, "s")
	if _, err := s.Open(t.Context(), plane.Claim{ID: "s", Node: "n2/boot1"}); !errors.Is(err, plane.ErrHeld) {
		t.Errorf("open: %v", err)
	}
	got, err := s.Seal(t.Context(), plane.Seal{ID: "s", Token: "n2/boot1/2", Status: plane.StatusComplete})
	if err != nil || got != row {
		t.Errorf("seal of another: %+v, %v", got, err)
	}
	got, err = s.Append(t.Context(), plane.Slice{ID: "s", Token: row.Token})
	if err != nil || got != row {
		t.Errorf("append of nothing: %+v, %v", got, err)
	}
}

func TestARowLockedForAMomentIsWaitedForByAllButAppends(t *testing.T) {
	t.Parallel()
	for name, write := range writes {
		if name == "append" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			s, db := open(t, url), pgtest.Pool(t, url)
			lockable(t, s, name)
			_, release := hold(t, db, "locked")
			var err error
			var call sync.WaitGroup
			call.Go(func() { err = write(t.Context(), s) })
			<-time.After(20 * time.Millisecond)
			release()
			call.Wait()
			if err != nil {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAnOpenWaitsNotLongForARowThatIsNotCommitted(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url), pgtest.Pool(t, url)
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	if _, err := tx.Exec(t.Context(), "INSERT INTO rillkeep.streams (id) VALUES ('s')"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := s.Open(ctx, plane.Claim{ID: "s", Node: "n1/boot1"}); !errors.Is(err, store.ErrBusy) {
		t.Errorf("got %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	claim(t, s, "s")
}
