package postgres_test

import (
	"context"
	"errors"
	"strings"
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

// hold locks a row until release, or the end of the test.
func hold(t *testing.T, db *pgxpool.Pool, id string) (tx pgx.Tx, release func()) {
	t.Helper()
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	if _, err := tx.Exec(t.Context(), "SELECT FROM rillkeep.streams WHERE id = $1 FOR UPDATE", id); err != nil {
		t.Fatal(err)
	}
	return tx, func() {
		t.Helper()
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// pause makes statements wait where they do what on says, until release, which
// lets them go on when n of them do. One that waits FOR EACH STATEMENT has its
// snapshot and no lock on a row yet; one that waits at a chunk has its stream's.
func pause(t *testing.T, db *pgxpool.Pool, on string) (release func(n int)) {
	t.Helper()
	conn, err := db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Conn().Close(context.Background()) // and nothing waits for it any more
		conn.Release()
	})
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS $$
		BEGIN
			IF current_setting('application_name') = 'rillkeep' THEN
				PERFORM pg_advisory_xact_lock_shared(1);
			END IF;
			RETURN new;
		END $$`)
	exec("CREATE TRIGGER pause BEFORE " + on + " EXECUTE FUNCTION pause()")
	exec("SELECT pg_advisory_lock(1)")
	return func(n int) {
		t.Helper()
		waiting(t, db, n)
		exec("SELECT pg_advisory_unlock(1)")
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

// An append that finds the row as it was, and locked by the other or changed
// when it comes to it.
func TestOfAppendsThatOverlapTheSecondComparesWithWhatTheFirstLeft(t *testing.T) {
	url := pgtest.URL(t)
	s, db := open(t, url), raw(t, url)
	claim(t, s, "s")
	release := pause(t, db, "UPDATE ON rillkeep.streams FOR EACH STATEMENT")
	rows, errs := make([]plane.Row, 2), make([]error, 2)
	var both sync.WaitGroup
	for n, text := range []string{"AAAA", "bbbbbb"} {
		both.Go(func() {
			rows[n], errs[n] = s.Append(t.Context(), plane.Slice{ID: "s", Token: token, Seq: int64(len(text)), Text: text})
		})
	}
	release(2)
	both.Wait()
	page, err := s.Text(t.Context(), "s", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	answered := 0
	for n, err := range errs {
		switch {
		case err == nil && rows[n] == page.Row && int64(len(page.Text)) == page.Seq:
			answered++
		case !errors.Is(err, store.ErrBusy):
			t.Errorf("told %+v, %v; the row is %+v, the text %q", rows[n], err, page.Row, page.Text)
		}
	}
	if answered == 0 {
		t.Errorf("neither landed: %v", errs)
	}
}

func TestASealSeesTheChunksOfAnAppendThatItWaitedFor(t *testing.T) {
	url := pgtest.URL(t)
	s, db := open(t, url), raw(t, url)
	claim(t, s, "s")
	release := pause(t, db, "INSERT ON rillkeep.chunks FOR EACH ROW")
	var appended, row plane.Row
	var err, sealing error
	var both sync.WaitGroup
	both.Go(func() {
		appended, err = s.Append(t.Context(), plane.Slice{ID: "s", Token: token, Seq: 3, Text: "abc"})
	})
	waiting(t, db, 1)
	both.Go(func() {
		row, sealing = s.Seal(t.Context(), plane.Seal{ID: "s", Token: token, Status: plane.StatusComplete, Seq: 3, Text: "abc"})
	})
	release(1)
	both.Wait()
	if err := errors.Join(err, sealing); err != nil || appended.Seq != 3 || row.Status != plane.StatusComplete {
		t.Fatalf("got %+v, then %+v, %v", appended, row, err)
	}
	var left int
	if err := db.QueryRow(t.Context(), "SELECT count(*) FROM rillkeep.chunks").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d chunk rows are left (%v)", left, err)
	}
}

func TestACallThatWasOvertakenIsToldTheRowAsItIsThen(t *testing.T) {
	for name, call := range map[string]func(context.Context, store.Store) (plane.Row, error){
		"append": func(ctx context.Context, s store.Store) (plane.Row, error) {
			return s.Append(ctx, plane.Slice{ID: "s", Token: token, Seq: 3, Text: "abc"})
		},
		"cancel": func(ctx context.Context, s store.Store) (plane.Row, error) { return s.Cancel(ctx, "s") },
	} {
		t.Run(name, func(t *testing.T) {
			url := pgtest.URL(t)
			s, db := open(t, url), raw(t, url)
			claim(t, s, "s")
			release := pause(t, db, "UPDATE ON rillkeep.streams FOR EACH STATEMENT")
			var row plane.Row
			var err error
			var done sync.WaitGroup
			done.Go(func() { row, err = call(t.Context(), s) })
			waiting(t, db, 1)
			if _, err := db.Exec(t.Context(), "UPDATE rillkeep.streams SET status = 'interrupted' WHERE id = 's'"); err != nil {
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

func TestAnAppendThatACancelOvertookLandsAndIsToldOfIt(t *testing.T) {
	url := pgtest.URL(t)
	s, db := open(t, url), raw(t, url)
	claim(t, s, "s")
	release := pause(t, db, "UPDATE ON rillkeep.streams FOR EACH STATEMENT")
	var row plane.Row
	var err error
	var done sync.WaitGroup
	done.Go(func() {
		row, err = s.Append(t.Context(), plane.Slice{ID: "s", Token: token, Seq: 3, Text: "abc"})
	})
	waiting(t, db, 1)
	if _, err := db.Exec(t.Context(), "UPDATE rillkeep.streams SET cancel = true WHERE id = 's'"); err != nil {
		t.Fatal(err)
	}
	release(1)
	done.Wait()
	want := plane.Row{Seq: 3, Status: plane.StatusStreaming, Cancel: true, Token: token, Epoch: 1}
	if err != nil || row != want {
		t.Errorf("got %+v, %v", row, err)
	}
}

func TestAnOpenThatWasOvertakenLostTheRace(t *testing.T) {
	for name, sql := range map[string]string{
		"of a row that is there": "UPDATE rillkeep.streams SET status = 'streaming', host = 'n2/boot1/1', epoch = 1 WHERE id = 'there'",
		"of a new one":           "INSERT INTO rillkeep.streams (id, status, host, epoch) VALUES ('new', 'streaming', 'n2/boot1/1', 1)",
	} {
		t.Run(name, func(t *testing.T) {
			url := pgtest.URL(t)
			s, db := open(t, url), raw(t, url)
			if _, err := db.Exec(t.Context(), "INSERT INTO rillkeep.streams (id) VALUES ('there')"); err != nil {
				t.Fatal(err)
			}
			release := pause(t, db, "INSERT ON rillkeep.streams FOR EACH STATEMENT")
			id := "new"
			if strings.Contains(sql, "'there'") {
				id = "there"
			}
			var err error
			var lost sync.WaitGroup
			lost.Go(func() { _, err = s.Open(t.Context(), plane.Claim{ID: id, Node: "n1/boot1"}) })
			waiting(t, db, 1)
			if _, err := db.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
			release(1)
			lost.Wait()
			if !errors.Is(err, plane.ErrLostRace) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestACallEndsWithItsContextAndLetsGoOfTheRow(t *testing.T) {
	url := pgtest.URL(t)
	s, db := open(t, url), raw(t, url)
	claim(t, s, "s")
	release := pause(t, db, "INSERT ON rillkeep.chunks FOR EACH ROW")
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
