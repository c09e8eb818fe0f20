package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// hold locks a row until release, or the end of the test.
func hold(t testing.TB, db *pgxpool.Pool, id string) (tx pgx.Tx, release func()) {
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
	return pgtest.Pause(t, db, `
		CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS $$
		BEGIN
			IF current_setting('application_name') = 'rillkeep' THEN
				PERFORM pg_advisory_xact_lock_shared(1);
			END IF;
			RETURN new;
		END $$;
		CREATE TRIGGER pause BEFORE `+on+` EXECUTE FUNCTION pause()`)
}

// pauseAtRows answers a store whose statements wait where they come to a row of
// a stream: with their snapshot, and no lock on it yet.
func pauseAtRows(t *testing.T, db *pgxpool.Pool) (s store.Store, release func(n int)) {
	t.Helper()
	s, _, release = pauseBothAtRows(t, db)
	return s, release
}

// pauseBothAtRows is pauseAtRows for two stores, as of two nodes.
func pauseBothAtRows(t *testing.T, db *pgxpool.Pool) (one, other store.Store, release func(n int)) {
	t.Helper()
	url := worker(t, db)
	stores := make([]store.Store, 2)
	for n := range stores {
		p, err := postgres.Open(t.Context(), url, postgres.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer t.Cleanup(func() { pgtest.Close(t, p) }) // before what pausing holds
		stores[n] = p
	}
	release = pgtest.PauseAtRows(t, db, "rillkeep.streams")
	return stores[0], stores[1], release
}
