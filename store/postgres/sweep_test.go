package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/lease"
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

func TestAStreamIsSweptOnceItsOwnersLeaseIsOverForTheGrace(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url), pgtest.Pool(t, url)
	for id, host := range map[string]string{
		"live": "n1/boot1", "idle": "n1/boot1", "dead": "n2/boot1", "late": "n3/boot1", "unknown": "n4/boot1", "fresh": "n5/boot1",
		"another boot": "n1/boot0", "longer": "n1/boot1x", "similar": "n1/boot1-", "nobody": "n6/boot1", "odd": "n7/boot1", "slash": "n8/boot1",
	} {
		row, err := s.Open(t.Context(), plane.Claim{ID: id, Node: host})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Append(t.Context(), plane.Slice{ID: id, Token: row.Token, Seq: 3, Text: "x😀"}); err != nil {
			t.Fatal(err)
		}
	}
	renew(t, s, store.Node{Name: "n1", Incarnation: "boot1"})
	dead(t, db, "n2")
	exec(t, db, `
		INSERT INTO rillkeep.nodes (name, incarnation, expires_at) VALUES ('n3', 'boot1', now() - interval '10 s');
		UPDATE rillkeep.streams SET updated_at = now() - interval '1 min' WHERE id NOT IN ('live', 'dead', 'fresh');
		UPDATE rillkeep.streams SET host = NULL WHERE id = 'nobody';
		UPDATE rillkeep.streams SET host = 'odd' WHERE id = 'odd';
		UPDATE rillkeep.streams SET host = 'odd/' WHERE id = 'slash'`)
	wantSwept(t, s, 8)
	wantSwept(t, s, 0)
	for _, id := range []string{"live", "idle", "late", "fresh"} {
		wantStream(t, s, id, plane.StatusStreaming, "x😀")
	}
	for _, id := range []string{"dead", "unknown", "another boot", "longer", "similar", "nobody", "odd", "slash"} {
		wantStream(t, s, id, plane.StatusInterrupted, "x😀")
	}
	exec(t, db, "UPDATE rillkeep.streams SET updated_at = now() - interval '1 min' WHERE id = 'fresh'")
	dead(t, db, "n3")
	wantSwept(t, s, 2)
}

func TestWhatIsSweptHasItsWholeTextAndStaysSo(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url), pgtest.Pool(t, url)
	texts := map[string]string{"empty": "", "short": "a", "long": strings.Repeat("of many 😀 checkpoints ", 5000)}
	for id, text := range texts {
		var slices []string
		for rest := text; rest != ""; rest = rest[len(slices[len(slices)-1]):] {
			slices = append(slices, rest[:plane.Cut(rest, 5000)])
		}
		write(t, s, "n1", id, slices...)
	}
	write(t, s, "n1", "holed", "abc", "def")
	exec(t, db, "DELETE FROM rillkeep.chunks WHERE stream_id = 'holed' AND seq = 3")
	dead(t, db, "n1")
	wantSwept(t, s, 4)
	var chunks int
	if err := db.QueryRow(t.Context(), "SELECT count(*) FROM rillkeep.chunks WHERE stream_id <> 'holed'").Scan(&chunks); err != nil || chunks != 0 {
		t.Errorf("%d chunk rows are left, %v", chunks, err)
	}
	for id, text := range texts {
		wantStreamPaged(t, s, id, text)
		row := plane.Row{Token: "n1/boot1/1"}
		if got, err := s.Append(t.Context(), plane.Slice{ID: id, Token: row.Token, From: plane.Units(text), Seq: plane.Units(text) + 1, Text: "x"}); err != nil || got.Status != plane.StatusInterrupted {
			t.Errorf("append to %s: %+v, %v", id, got, err)
		}
		if got, err := s.Seal(t.Context(), plane.Seal{ID: id, Token: row.Token, Status: plane.StatusComplete, Seq: 1, Text: "x"}); err != nil || got.Status != plane.StatusInterrupted {
			t.Errorf("seal of %s: %+v, %v", id, got, err)
		}
		wantStreamPaged(t, s, id, text)
	}
	if row, err := s.Read(t.Context(), "holed"); err != nil || row.Status != plane.StatusInterrupted || row.Seq != 0 || !strings.Contains(row.Error, "deleted by others") {
		t.Errorf("holed: %+v, %v", row, err)
	}
	if err := db.QueryRow(t.Context(), "SELECT count(*) FROM rillkeep.chunks").Scan(&chunks); err != nil || chunks != 1 {
		t.Errorf("of the text with a hole %d pieces are left, %v", chunks, err)
	}
	got, err := s.Get(t.Context(), "long")
	if err != nil || got.Ended.IsZero() || got.HasError {
		t.Errorf("%+v, %v", got, err)
	}
}

func wantStreamPaged(t *testing.T, s store.Store, id, text string) {
	t.Helper()
	var got strings.Builder
	for page := (store.Page{}); ; {
		var err error
		if page, err = s.Text(t.Context(), id, page.End(), 40_000); err != nil || page.Status != plane.StatusInterrupted {
			t.Fatalf("%s: %s, %v", id, page.Status, err)
		}
		got.WriteString(page.Text)
		if page.End() >= page.Seq {
			break
		}
	}
	if got.String() != text {
		t.Errorf("%s has %d bytes of text, want %d", id, got.Len(), len(text))
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

func TestSweepersShareTheWork(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := pgtest.Pool(t, url)
	const streams = 300
	sweepers := []*postgres.Store{open(t, url), open(t, url), open(t, url)}
	exec(t, db, `
		INSERT INTO rillkeep.streams (id, status, host, epoch, seq) SELECT 's' || n, 'streaming', 'n1/boot1/1', 1, 6 FROM generate_series(1, $1) n`, streams)
	exec(t, db, "INSERT INTO rillkeep.chunks SELECT id, at, 'abc' FROM rillkeep.streams, unnest(ARRAY[3, 6]) at")
	dead(t, db, "n1")
	// A row that is sealed twice would show.
	exec(t, db, `
		CREATE TABLE seals (id text);
		CREATE FUNCTION sealed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seals VALUES (old.id); RETURN new; END $$;
		CREATE TRIGGER sealed BEFORE UPDATE ON rillkeep.streams FOR EACH ROW EXECUTE FUNCTION sealed()`)
	counts := make([]int, len(sweepers))
	var all sync.WaitGroup
	for i, s := range sweepers {
		all.Go(func() {
			var err error
			if counts[i], err = sweep(t, s); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	var seals, whole, chunks int
	err := db.QueryRow(t.Context(), `
		SELECT (SELECT count(*) FROM seals), count(*), (SELECT count(*) FROM rillkeep.chunks)
		FROM rillkeep.streams WHERE status = 'interrupted' AND body = 'abcabc'`).Scan(&seals, &whole, &chunks)
	if err != nil || seals != streams || whole != streams || chunks != 0 || counts[0]+counts[1]+counts[2] != streams {
		t.Errorf("%v swept, %d seals, %d sound rows, %d chunks left, %v", counts, seals, whole, chunks, err)
	}
}

// The owner was only slow: the first to have the row wins, and the other is told.
func TestASweepAndTheOwnersSealDecideBetweenThem(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	owner, sweeper, db := open(t, url), open(t, url), pgtest.Pool(t, url)
	const streams = 200
	rows := make([]plane.Row, streams)
	for n := range rows {
		rows[n] = write(t, owner, "n1", fmt.Sprint("s", n), "abc")
	}
	dead(t, db, "n1")
	sealed := make([]plane.Row, streams)
	var swept int
	var both sync.WaitGroup
	both.Go(func() {
		for n := range sealed {
			var err error
			sealed[n], err = owner.Seal(t.Context(), plane.Seal{
				ID: fmt.Sprint("s", n), Token: rows[n].Token, Status: plane.StatusComplete, From: 3, Seq: 6, Text: "abcdef",
			})
			if err != nil {
				t.Errorf("seal of s%d: %v", n, err)
			}
		}
	})
	both.Go(func() {
		for range 20 { // what was locked is swept in the next round
			n, err := sweep(t, sweeper)
			if err != nil {
				t.Error(err)
			}
			swept += n
		}
	})
	both.Wait()
	interrupted := 0
	for n, row := range sealed {
		text := "abcdef"
		if row.Status == plane.StatusInterrupted {
			text = "abc"
			interrupted++
		}
		wantStream(t, owner, fmt.Sprint("s", n), row.Status, text)
	}
	if interrupted != swept {
		t.Errorf("%d swept, %d owners were told", swept, interrupted)
	}
}

func TestLeasesThatAreOverForLongAreForgotten(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url), pgtest.Pool(t, url)
	dead(t, db, "n1")
	exec(t, db, "INSERT INTO rillkeep.nodes (name, incarnation, expires_at) VALUES ('n2', 'boot1', now() - interval '2 h')")
	renew(t, s, store.Node{Name: "n3", Incarnation: "boot1"})
	wantSwept(t, s, 0)
	var names string
	if err := db.QueryRow(t.Context(), "SELECT string_agg(name, ' ' ORDER BY name) FROM rillkeep.nodes").Scan(&names); err != nil || names != "n1 n3 sweeper" {
		t.Errorf("%q are left, %v", names, err)
	}
}

// To rows, a step forward of the clock is that all times in them are older.
func TestAStepOfTheDatabasesClockSealsNoLiveStream(t *testing.T) {
	url := pgtest.URL(t)
	a, b, db := open(t, url), open(t, url), pgtest.Pool(t, url)
	var keepers []*lease.Keeper
	for name, s := range map[string]*postgres.Store{"n1": a, "n2": b} {
		k, err := lease.Keep(t.Context(), lease.Config{
			Store: s, Node: store.Node{Name: name, Incarnation: "boot1"}, TTL: 2 * time.Second, Grace: 4 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(k.Stop)
		keepers = append(keepers, k)
	}
	write(t, a, "n1", "live", "abc")
	swept := func() (n int64) {
		for _, k := range keepers {
			n += k.Stats().Swept
		}
		return n
	}
	for step := range 3 {
		// Those of a node that is gone show that there is somebody who sweeps.
		write(t, b, "n3", fmt.Sprint("gone", step), "abc")
		dead(t, db, "n3")
		for deadline := time.Now().Add(time.Minute); swept() <= int64(step); {
			if time.Now().After(deadline) {
				t.Fatalf("%d swept before step %d", swept(), step)
			}
			time.Sleep(10 * time.Millisecond)
		}
		exec(t, db, "UPDATE rillkeep.nodes SET expires_at = expires_at - interval '1 min', heartbeat_at = heartbeat_at - interval '1 min', since = since - interval '1 min'")
	}
	time.Sleep(3 * time.Second) // sweeps that come before the other's renewal
	if row, err := a.Read(t.Context(), "live"); err != nil || row.Status != plane.StatusStreaming {
		t.Errorf("the live stream: %+v, %v", row, err)
	}
}

func TestWhoHasNoSteadyLeaseSweepsNothing(t *testing.T) {
	url := pgtest.URL(t)
	s, db := open(t, url), pgtest.Pool(t, url)
	write(t, s, "n1", "s", "abc")
	dead(t, db, "n1")
	for what, sql := range map[string]string{
		"none":                   "DELETE FROM rillkeep.nodes WHERE name = 'sweeper'",
		"over":                   "UPDATE rillkeep.nodes SET expires_at = now() - interval '1 s', heartbeat_at = now() - interval '1 h' WHERE name = 'sweeper'",
		"had a gap":              "UPDATE rillkeep.nodes SET since = now() - interval '1 min' WHERE name = 'sweeper'",
		"not renewed for a time": "UPDATE rillkeep.nodes SET expires_at = now() + interval '20 min', heartbeat_at = now() - interval '40 min' WHERE name = 'sweeper'",
	} {
		if err := s.Steady(t.Context(), sweeper); err != nil {
			t.Fatal(err)
		}
		exec(t, db, sql)
		if n, err := s.Sweep(t.Context(), sweeper, grace); n != 0 || err != nil {
			t.Errorf("%s: swept %d, %v", what, n, err)
		}
	}
	wantSwept(t, s, 1)
}
