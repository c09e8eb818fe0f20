package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

const grace = 30 * time.Second

// sweeper is who sweeps in these tests.
var sweeper = store.Node{Name: "sweeper", Incarnation: "boot1"}

func sweep(t *testing.T, s *postgres.Store) (int, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Steady(ctx, sweeper); err != nil {
		return 0, err
	}
	return s.Sweep(ctx, sweeper, grace)
}

func wantSwept(t *testing.T, s *postgres.Store, want int) {
	t.Helper()
	if n, err := sweep(t, s); n != want || err != nil {
		t.Errorf("swept %d, %v, want %d", n, err, want)
	}
}

// dead makes the streams of a node orphans: its lease is long over.
func dead(t *testing.T, db *pgxpool.Pool, name string) {
	t.Helper()
	exec(t, db, `
		INSERT INTO rillkeep.nodes (name, incarnation, expires_at) VALUES ($1, 'boot1', now() - interval '1 min')
		ON CONFLICT (name, incarnation) DO UPDATE SET expires_at = excluded.expires_at`, name)
}

// write opens a stream on a node and appends texts, and answers the row.
func write(t *testing.T, s store.Store, node, id string, texts ...string) plane.Row {
	t.Helper()
	row, err := s.Open(t.Context(), plane.Claim{ID: id, Node: node + "/boot1"})
	for _, text := range texts {
		if err == nil {
			row, err = s.Append(t.Context(), plane.Slice{ID: id, Token: row.Token, From: row.Seq, Seq: row.Seq + plane.Units(text), Text: text})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// wantStream fails the test unless a stream is as said, its text in one piece.
func wantStream(t *testing.T, s store.Store, id string, status plane.Status, text string) {
	t.Helper()
	page, err := s.Text(t.Context(), id, 0, 0)
	if err != nil || page.Status != status || page.Text != text || page.Seq != plane.Units(text) {
		t.Errorf("%s is %+v, %v, want %s %.40q", id, page, err, status, text)
	}
}

func TestALockedOrphanIsLeftForTheNextSweep(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url+lockWait), pgtest.Pool(t, url)
	for n := range 40 {
		write(t, s, "n1", fmt.Sprint("s", n), "abc")
	}
	dead(t, db, "n1")
	_, release := hold(t, db, "s7")
	wantSwept(t, s, 39)
	wantSwept(t, s, 0)
	wantStream(t, s, "s7", plane.StatusStreaming, "abc")
	release()
	wantSwept(t, s, 1)
	wantStream(t, s, "s7", plane.StatusInterrupted, "abc")
}

// So that no transaction lasts, and holds what it has locked, for long.
func TestASweepIsOfSmallBatches(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url), pgtest.Pool(t, url)
	for n := range 40 {
		write(t, s, "n1", fmt.Sprint("s", n), "abc")
	}
	long := strings.Repeat("x", 600_000)
	for n := range 3 {
		write(t, s, "n1", fmt.Sprint("long", n), long)
	}
	write(t, s, "n1", "longest", long, long)
	dead(t, db, "n1")
	exec(t, db, `
		CREATE TABLE swept (transaction bigint, units bigint);
		CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN INSERT INTO swept VALUES (txid_current(), NEW.seq); RETURN NULL; END $$;
		CREATE TRIGGER note AFTER UPDATE ON rillkeep.streams FOR EACH ROW EXECUTE FUNCTION note()`)
	wantSwept(t, s, 44)
	var rows, units int64
	err := db.QueryRow(t.Context(), `
		SELECT max(n), max(units) FILTER (WHERE n > 1)
		FROM (SELECT count(*) AS n, sum(units) AS units FROM swept GROUP BY transaction) batch`).Scan(&rows, &units)
	if err != nil || rows != 16 || units > 1<<20 {
		t.Errorf("at most %d rows and %d units in a batch, %v", rows, units, err)
	}
	var whole int
	err = db.QueryRow(t.Context(), "SELECT count(*) FROM rillkeep.streams WHERE status = 'interrupted' AND octet_length(body) = seq").Scan(&whole)
	if err != nil || whole != 44 {
		t.Errorf("%d have their whole text, %v", whole, err)
	}
}

func TestAnOrphanThatCannotBeSealedCostsItselfAlone(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url), pgtest.Pool(t, url)
	for n := range 40 {
		write(t, s, "n1", fmt.Sprintf("s%02d", n), "abc")
	}
	dead(t, db, "n1")
	exec(t, db, `
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one'; END $$;
		CREATE TRIGGER refuse BEFORE UPDATE ON rillkeep.streams FOR EACH ROW WHEN (old.id IN ('s03', 's21')) EXECUTE FUNCTION refuse()`)
	n, err := sweep(t, s)
	if n != 38 || err == nil || !strings.Contains(err.Error(), `"s03"`) || !strings.Contains(err.Error(), `"s21"`) {
		t.Errorf("swept %d, %v", n, err)
	}
	exec(t, db, "DROP FUNCTION refuse CASCADE")
	wantSwept(t, s, 2)
}
