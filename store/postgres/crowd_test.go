package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/postgres"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// More readers than there are connections wait in the database, and a checkpoint
// of another stream goes past them.
func TestReadersDoNotHoldUpAppends(t *testing.T) {
	db := pgtest.Pool(t, pgtest.URL(t))
	owner := open(t, db.Config().ConnString())
	write(t, owner, "n1", "read", "abc")
	row := write(t, owner, "n1", "written", "abc")
	s, err := postgres.Open(t.Context(), worker(t, db), postgres.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer t.Cleanup(func() { pgtest.Close(t, s) }) // before what pausing holds
	release := pgtest.Pause(t, db, `
		CREATE FUNCTION pause(id text) RETURNS boolean LANGUAGE plpgsql SET lock_timeout = 0 AS $$
		BEGIN
			IF id = 'read' THEN
				PERFORM pg_advisory_xact_lock_shared(1);
			END IF;
			RETURN true;
		END $$;
		ALTER TABLE rillkeep.streams ENABLE ROW LEVEL SECURITY;
		CREATE POLICY pause ON rillkeep.streams USING (pause(id))`)

	var readers sync.WaitGroup
	defer readers.Wait()
	for range 20 {
		readers.Go(func() {
			if page, err := s.Text(t.Context(), "read", 0, 0); err != nil || page.Text != "abc" {
				t.Errorf("read %q, %v", page.Text, err)
			}
		})
		readers.Go(func() {
			if _, err := s.Get(t.Context(), "read"); err != nil {
				t.Error(err)
			}
		})
	}
	const places = 5 // of the pool's 8
	pgtest.Waiting(t, db, places)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	row, err = s.Append(ctx, plane.Slice{ID: "written", Token: row.Token, From: 3, Seq: 4, Text: "d"})
	if err != nil || row.Seq != 4 {
		t.Errorf("append answered %+v, %v", row, err)
	}
	release(places)
}
