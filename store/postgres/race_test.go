package postgres_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

const token = "n1/boot1/1"

func claim(t *testing.T, s store.Store, id string) plane.Row {
	t.Helper()
	row, err := s.Open(t.Context(), plane.Claim{ID: id, Node: "n1/boot1"})
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// hold locks a row until release, which waits for n sessions to wait for it.
func hold(t *testing.T, db *pgxpool.Pool, id string) (tx pgx.Tx, release func(n int)) {
	t.Helper()
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM rillkeep.streams WHERE id = $1 FOR UPDATE", id); err != nil {
		t.Fatal(err)
	}
	return tx, func(n int) {
		t.Helper()
		waiting(t, db, n)
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// waiting returns once n sessions wait for a lock.
func waiting(t *testing.T, db *pgxpool.Pool, n int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		var count int
		err := db.QueryRow(t.Context(), `
			SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&count)
		if err != nil {
			t.Fatal(err)
		}
		if count == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d sessions wait, not %d", count, n)
		}
	}
}

func TestAppendsThatWaitForOneRowCompareWithWhatTheFirstLeft(t *testing.T) {
	url := pgtest.URL(t)
	s, db := open(t, url), raw(t, url)
	claim(t, s, "s")
	_, release := hold(t, db, "s")
	rows, errs := make([]plane.Row, 2), make([]error, 2)
	var both sync.WaitGroup
	for n, text := range []string{"AAAA", "bbbbbb"} {
		both.Go(func() {
			rows[n], errs[n] = s.Append(t.Context(), plane.Slice{ID: "s", Token: token, Seq: int64(len(text)), Text: text})
		})
	}
	release(2)
	both.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	page, err := s.Text(t.Context(), "s", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if rows[0] != rows[1] || rows[0] != page.Row || int64(len(page.Text)) != page.Seq {
		t.Errorf("they were told %+v and %+v, the text is %q", rows[0], rows[1], page.Text)
	}
}

func TestASealSeesTheChunksOfAnAppendThatItWaitedFor(t *testing.T) {
	url := pgtest.URL(t)
	s, db := open(t, url), raw(t, url)
	claim(t, s, "s")
	tx, release := hold(t, db, "s")
	var row plane.Row
	var err error
	var seal sync.WaitGroup
	seal.Go(func() {
		row, err = s.Seal(t.Context(), plane.Seal{ID: "s", Token: token, Status: plane.StatusComplete, Seq: 3, Text: "abc"})
	})
	waiting(t, db, 1)
	for _, sql := range []string{
		"UPDATE rillkeep.streams SET seq = 3 WHERE id = 's'", "INSERT INTO rillkeep.chunks VALUES ('s', 3, 'abc')",
	} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	release(1)
	seal.Wait()
	if err != nil || row.Status != plane.StatusComplete {
		t.Fatalf("got %+v, %v", row, err)
	}
	var left int
	if err := db.QueryRow(t.Context(), "SELECT count(*) FROM rillkeep.chunks").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d chunk rows are left (%v)", left, err)
	}
}

func TestACallThatWaitedIsToldTheRowAsItIsThen(t *testing.T) {
	for name, call := range map[string]func(context.Context, store.Store) (plane.Row, error){
		"append": func(ctx context.Context, s store.Store) (plane.Row, error) {
			return s.Append(ctx, plane.Slice{ID: "s", Token: token, Seq: 3, Text: "abc"})
		},
		"cancel": func(ctx context.Context, s store.Store) (plane.Row, error) { return s.Cancel(ctx, "s") },
		"seal": func(ctx context.Context, s store.Store) (plane.Row, error) {
			return s.Seal(ctx, plane.Seal{ID: "s", Token: token, Status: plane.StatusComplete, Seq: 3, Text: "abc"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := pgtest.URL(t)
			s, db := open(t, url), raw(t, url)
			claim(t, s, "s")
			tx, release := hold(t, db, "s")
			var row plane.Row
			var err error
			var done sync.WaitGroup
			done.Go(func() { row, err = call(t.Context(), s) })
			waiting(t, db, 1)
			if _, err := tx.Exec(t.Context(), "UPDATE rillkeep.streams SET status = 'interrupted' WHERE id = 's'"); err != nil {
				t.Fatal(err)
			}
			release(1)
			done.Wait()
			if want := (plane.Row{Status: plane.StatusInterrupted, Token: token, Epoch: 1}); err != nil || row != want {
				t.Errorf("got %+v, %v", row, err)
			}
		})
	}
}

func TestAnOpenThatWaitedLostTheRace(t *testing.T) {
	url := pgtest.URL(t)
	s, db := open(t, url), raw(t, url)
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = tx.Exec(t.Context(), "INSERT INTO rillkeep.streams (id, status, host, epoch) VALUES ('s', 'streaming', 'n2/boot1/1', 1)")
	if err != nil {
		t.Fatal(err)
	}
	var lost sync.WaitGroup
	lost.Go(func() { _, err = s.Open(t.Context(), plane.Claim{ID: "s", Node: "n1/boot1"}) })
	waiting(t, db, 1)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	lost.Wait()
	if !errors.Is(err, plane.ErrLostRace) {
		t.Errorf("got %v", err)
	}
}

func TestACallEndsWithItsContextAndLetsGoOfTheRow(t *testing.T) {
	url := pgtest.URL(t)
	s, db := open(t, url), raw(t, url)
	claim(t, s, "s")
	_, release := hold(t, db, "s")
	ctx, cancel := context.WithCancel(t.Context())
	var err error
	var call sync.WaitGroup
	call.Go(func() { _, err = s.Append(ctx, plane.Slice{ID: "s", Token: token, Seq: 3, Text: "abc"}) })
	waiting(t, db, 1)
	cancel()
	call.Wait()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	release(0) // the server's side has ended too
	row, err := s.Read(t.Context(), "s")
	if err != nil || row.Seq != 0 {
		t.Errorf("got %+v, %v", row, err)
	}
}

// One connection must serve on after every kind of failure.
func TestAFailedStatementSpoilsNoConnection(t *testing.T) {
	url := pgtest.URL(t)
	s := open(t, url+"&pool_max_conns=1")
	row := claim(t, s, "s")
	for name, fail := range map[string]func(context.Context) error{
		"a text that the database refuses": func(ctx context.Context) error {
			_, err := s.Append(ctx, plane.Slice{ID: "s", Token: token, From: row.Seq, Seq: row.Seq + 1, Text: "\x00"})
			return err
		},
		"a seal that the database refuses": func(ctx context.Context) error {
			_, err := s.Seal(ctx, plane.Seal{ID: "s", Token: token, Status: plane.StatusComplete, Seq: 1, Text: "\x00"})
			return err
		},
		"a chunk that is there": func(ctx context.Context) error {
			if _, err := raw(t, url).Exec(ctx, "INSERT INTO rillkeep.chunks VALUES ('s', $1, 'x')", row.Seq+1); err != nil {
				return nil
			}
			_, err := s.Append(ctx, plane.Slice{ID: "s", Token: token, From: row.Seq, Seq: row.Seq + 1, Text: "y"})
			_, _ = raw(t, url).Exec(ctx, "DELETE FROM rillkeep.chunks WHERE text = 'x'")
			return err
		},
		"a context that has ended": func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			_, err := s.Read(ctx, "s")
			return err
		},
	} {
		if err := fail(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
		for range 20 {
			next, err := s.Append(t.Context(), plane.Slice{ID: "s", Token: token, From: row.Seq, Seq: row.Seq + 1, Text: "z"})
			if err != nil || next.Seq != row.Seq+1 {
				t.Fatalf("after %s: %+v, %v", name, next, err)
			}
			row = next
		}
	}
}
