package postgres_test

import (
	"errors"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// Whoever had it may be gone by then, as may its lease, or be alive.
func TestADisownedStreamIsSweptOnceItWasSoForTheGrace(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url), pgtest.Pool(t, url)
	renew(t, s, store.Node{Name: "n1", Incarnation: "boot1"})
	for _, id := range []string{"fresh", "old", "older", "adopted"} {
		row := write(t, s, "n1", id, "x😀")
		left, err := s.Disown(t.Context(), id, row.Token, 7)
		if err != nil || !left.Disowned() {
			t.Fatalf("%+v, %v", left, err)
		}
		if id == "adopted" {
			if _, err := s.Adopt(t.Context(), id, left.Token, "n1/boot1"); err != nil {
				t.Fatal(err)
			}
		}
	}
	dead(t, db, "n2") // there is one to sweep
	write(t, s, "n2", "dead", "x😀")
	wantSwept(t, s, 1)
	exec(t, db, "UPDATE rillkeep.streams SET updated_at = now() - interval '31 s' WHERE id <> 'fresh'")
	wantSwept(t, s, 2)
	wantSwept(t, s, 0)
	for _, id := range []string{"fresh", "adopted"} {
		wantStream(t, s, id, plane.StatusStreaming, "x😀")
	}
	for _, id := range []string{"old", "older"} {
		wantStream(t, s, id, plane.StatusInterrupted, "x😀")
		row, err := s.Read(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Adopt(t.Context(), id, row.Token, "n1/boot1"); err == nil {
			t.Errorf("%s was adopted after its end", id)
		}
	}
}

// The mark says when, by the database's clock.
func TestAMarkIsOfTheMoment(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url), pgtest.Pool(t, url)
	row := write(t, s, "n1", "s", "abc")
	var before, after time.Time
	now := func(to *time.Time) {
		t.Helper()
		if err := db.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(to); err != nil {
			t.Fatal(err)
		}
	}
	now(&before)
	if _, err := s.Disown(t.Context(), "s", row.Token, 1); err != nil {
		t.Fatal(err)
	}
	now(&after)
	var micros int64
	if err := db.QueryRow(t.Context(), "SELECT split_part(split_part(host, '/', 2), '.', 1)::bigint FROM rillkeep.streams").Scan(&micros); err != nil {
		t.Fatal(err)
	}
	if at := time.UnixMicro(micros); at.Before(before) || at.After(after) {
		t.Errorf("marked %s, between %s and %s", at, before, after)
	}
}

func TestALockedRowIsNeitherDisownedNorAdoptedUntilItIsFree(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url+lockWait), pgtest.Pool(t, url)
	row := write(t, s, "n1", "s", "abc")
	_, release := hold(t, db, "s")
	_, err := s.Disown(t.Context(), "s", row.Token, 1)
	if !errors.Is(err, store.ErrBusy) {
		t.Errorf("disown: %v", err)
	}
	release()
	left, err := s.Disown(t.Context(), "s", row.Token, 1)
	if err != nil {
		t.Fatal(err)
	}
	_, release = hold(t, db, "s")
	_, err = s.Adopt(t.Context(), "s", left.Token, "n2/boot1")
	if !errors.Is(err, store.ErrBusy) {
		t.Errorf("adopt: %v", err)
	}
	release()
	if now, err := s.Adopt(t.Context(), "s", left.Token, "n2/boot1"); err != nil || now.Token != "n2/boot1/1" {
		t.Errorf("%+v, %v", now, err)
	}
}
