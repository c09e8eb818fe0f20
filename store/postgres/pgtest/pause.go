package pgtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Pause runs sql, which makes a function that waits for
// pg_advisory_xact_lock_shared(1), and takes that lock until release, which lets
// go on what waits for it when n sessions do. A function that waits for long needs
// a lock_timeout of its own.
func Pause(tb testing.TB, db *pgxpool.Pool, sql string) (release func(n int)) {
	tb.Helper()
	conn, err := db.Acquire(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = conn.Conn().Close(context.Background()) // and nothing waits for it any more
		conn.Release()
	})
	exec := func(sql string) {
		tb.Helper()
		if _, err := conn.Exec(tb.Context(), sql); err != nil {
			tb.Fatal(err)
		}
	}
	exec(sql)
	exec("SELECT pg_advisory_lock(1)")
	return func(n int) {
		tb.Helper()
		Waiting(tb, db, n)
		exec("SELECT pg_advisory_unlock(1)")
	}
}

// PauseAtRows is Pause for statements of a Role that come to a row of table: they
// wait with their snapshot, and no lock on it yet.
func PauseAtRows(tb testing.TB, db *pgxpool.Pool, table string) (release func(n int)) {
	tb.Helper()
	return Pause(tb, db, fmt.Sprintf(`
		CREATE FUNCTION pause() RETURNS boolean LANGUAGE plpgsql SET lock_timeout = 0 AS $$
		BEGIN
			PERFORM pg_advisory_xact_lock_shared(1);
			RETURN true;
		END $$;
		ALTER TABLE %[1]s ENABLE ROW LEVEL SECURITY;
		CREATE POLICY pause ON %[1]s USING (pause())`, table))
}

// Busy has the first insert into table wait for a lock until it is too long, as the
// server's own locks may on a slow machine, and the later ones not. It answers how
// many there were.
func Busy(tb testing.TB, db *pgxpool.Pool, table string) (inserts func() int) {
	tb.Helper()
	Pause(tb, db, fmt.Sprintf(`
		CREATE SEQUENCE inserts;
		CREATE FUNCTION busy() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF nextval('inserts') = 1 THEN -- which a rollback does not take back
				PERFORM pg_advisory_xact_lock_shared(1);
			END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER busy BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION busy()`, table))
	return func() (n int) {
		tb.Helper()
		if err := db.QueryRow(tb.Context(), "SELECT last_value FROM inserts").Scan(&n); err != nil {
			tb.Fatal(err)
		}
		return n
	}
}

// Waiting returns once n sessions of a database wait for a lock.
func Waiting(tb testing.TB, db *pgxpool.Pool, n int) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for count := 0; ; <-tick.C {
		err := db.QueryRow(ctx, `
			SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&count)
		switch {
		case err != nil:
			tb.Fatalf("%d sessions wait, not %d: %v", count, n, err)
		case count == n:
			return
		}
	}
}
