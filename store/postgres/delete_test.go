package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

func TestStreamsThatEndedLongAgoAreDeleted(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url+lockWait), pgtest.Pool(t, url)
	exec(t, db, `
		INSERT INTO rillkeep.streams (id, status, seq, ended_at)
			SELECT 'old' || n, 'complete', 1, now() - interval '2 days' FROM generate_series(1, 250) n
			UNION ALL SELECT 'new' || n, 'complete', 1, now() - interval '2 hours' FROM generate_series(1, 10) n;
		INSERT INTO rillkeep.streams (id, status, created_at, updated_at)
			VALUES ('live', 'streaming', now() - interval '9 days', now() - interval '9 days'),
				('pending', 'pending', now() - interval '9 days', now() - interval '9 days');
		INSERT INTO rillkeep.chunks SELECT id, 1, 'x' FROM rillkeep.streams;
		CREATE TABLE batch (n bigint);
		CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO batch SELECT count(*) FROM gone; RETURN NULL; END $$;
		CREATE TRIGGER note AFTER DELETE ON rillkeep.streams REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION note()`)
	_, release := hold(t, db, "old42")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	drop := func(want int) {
		t.Helper()
		if n, err := s.DeleteEnded(ctx, 24*time.Hour); n != want || err != nil {
			t.Errorf("deleted %d, %v, want %d", n, err, want)
		}
	}
	drop(249)
	release()
	drop(1)
	drop(0)
	var streams, chunks, old int
	err := db.QueryRow(ctx, `
		SELECT count(*), count(*) FILTER (WHERE id LIKE 'old%'), (SELECT count(*) FROM rillkeep.chunks) FROM rillkeep.streams`).
		Scan(&streams, &old, &chunks)
	if err != nil || streams != 12 || old != 0 || chunks != 12 {
		t.Errorf("%d streams are left, %d of them old, and %d chunks, %v", streams, old, chunks, err)
	}
	var most int
	if err := db.QueryRow(ctx, "SELECT max(n) FROM batch").Scan(&most); err != nil || most != 100 {
		t.Errorf("%d were deleted at once, %v", most, err)
	}
}

func TestAStreamThatCannotBeDeletedCostsNoOther(t *testing.T) {
	url := pgtest.URL(t)
	s, db := open(t, url), pgtest.Pool(t, url)
	exec(t, db, `
		INSERT INTO rillkeep.streams (id, status, seq, ended_at)
			SELECT 's' || n, 'complete', 1, now() - interval '2 days' FROM generate_series(1, 150) n;
		CREATE TABLE bookmark (stream text REFERENCES rillkeep.streams (id));
		INSERT INTO bookmark VALUES ('s1'), ('s120')`)
	want := 148
	for range 2 {
		n, err := s.DeleteEnded(t.Context(), 24*time.Hour)
		if n != want || err == nil || !strings.Contains(err.Error(), `"s1"`) || !strings.Contains(err.Error(), `"s120"`) {
			t.Errorf("deleted %d, %v, want %d", n, err, want)
		}
		want = 0
	}
	exec(t, db, "DROP TABLE bookmark")
	if n, err := s.DeleteEnded(t.Context(), 24*time.Hour); n != 2 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
}
