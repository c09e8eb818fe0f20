package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
	"rillkeep.dev/rillkeep/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(tb testing.TB) store.Store {
		url := pgtest.URL(tb)
		return &backdoor{Store: open(tb, url), tb: tb, db: raw(tb, url)}
	})
}

func open(tb testing.TB, url string) *postgres.Store {
	tb.Helper()
	s, err := postgres.Open(tb.Context(), url, postgres.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return s
}

// raw is the database past the store.
func raw(tb testing.TB, url string) *pgxpool.Pool {
	tb.Helper()
	db, err := pgxpool.New(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(db.Close)
	return db
}

type backdoor struct {
	store.Store
	tb testing.TB
	db *pgxpool.Pool
}

func (b *backdoor) Row(id string) (storetest.Row, bool) {
	b.tb.Helper()
	row, ok := storetest.Row{}, true
	var message, meta *string
	var ended *time.Time
	err := b.db.QueryRow(b.tb.Context(), `
		SELECT body, seq, status, coalesce(host, ''), epoch, cancel, error, coalesce(producer, ''), meta, created_at, updated_at, ended_at
		FROM rillkeep.streams WHERE id = $1`, id).Scan(&row.Body, &row.Seq, &row.Status, &row.Token, &row.Epoch, &row.Cancel,
		&message, &row.Producer, &meta, &row.Created, &row.Updated, &ended)
	if errors.Is(err, pgx.ErrNoRows) {
		ok, err = false, nil
	}
	if err != nil {
		b.tb.Fatal(err)
	}
	if message != nil {
		row.Error, row.HasError = *message, true
	}
	if meta != nil {
		row.Meta = json.RawMessage(*meta)
	}
	if ended != nil {
		row.Ended = *ended
	}
	rows, err := b.db.Query(b.tb.Context(), "SELECT seq, text FROM rillkeep.chunks WHERE stream_id = $1 ORDER BY seq", id)
	if err != nil {
		b.tb.Fatal(err)
	}
	row.Chunks, err = pgx.CollectRows(rows, pgx.RowToStructByPos[plane.Chunk])
	if err != nil {
		b.tb.Fatal(err)
	}
	if len(row.Chunks) == 0 {
		row.Chunks = nil
	}
	return row, ok
}

func (b *backdoor) Edit(id string, edit func(*storetest.Row)) {
	b.tb.Helper()
	row, ok := b.Row(id)
	if !ok {
		row.Status = plane.StatusPending
	}
	edit(&row)
	var meta, message *string
	if row.Meta != nil {
		meta = new(string(row.Meta))
	}
	if row.HasError {
		message = &row.Error
	}
	b.exec("DELETE FROM rillkeep.streams WHERE id = $1", id)
	b.exec(`
		INSERT INTO rillkeep.streams (id, body, marks, seq, status, host, epoch, cancel, error, producer, meta)
		VALUES ($1, $2, $3, $4, $5, nullif($6, ''), $7, $8, $9, nullif($10, ''), $11::text::json)`,
		id, row.Body, store.Marks(row.Body), row.Seq, row.Status, row.Token, row.Epoch, row.Cancel, message, row.Producer, meta)
	b.exec("DELETE FROM rillkeep.chunks WHERE stream_id = $1", id)
	for _, c := range row.Chunks {
		b.exec("INSERT INTO rillkeep.chunks (stream_id, seq, text) VALUES ($1, $2, $3)", id, c.Seq, c.Text)
	}
}

func (b *backdoor) Delete(id string) {
	b.tb.Helper()
	b.exec("DELETE FROM rillkeep.streams WHERE id = $1", id)
}

func (b *backdoor) exec(sql string, args ...any) {
	b.tb.Helper()
	if _, err := b.db.Exec(b.tb.Context(), sql, args...); err != nil {
		b.tb.Fatal(err)
	}
}

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

func TestSeveralNodesMigrateAtOnce(t *testing.T) {
	url := pgtest.URL(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			s, err := postgres.Open(t.Context(), url, postgres.Config{})
			if err != nil {
				t.Error(err)
				return
			}
			s.Close()
		})
	}
	all.Wait()
	var versions int
	if err := raw(t, url).QueryRow(t.Context(), "SELECT count(*) FROM rillkeep.versions").Scan(&versions); err != nil || versions != 1 {
		t.Errorf("%d migrations were applied (%v)", versions, err)
	}
}

func TestANewerReleasesTablesAreRefused(t *testing.T) {
	url := pgtest.URL(t)
	open(t, url)
	if _, err := raw(t, url).Exec(t.Context(), "INSERT INTO rillkeep.versions VALUES (99)"); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Open(t.Context(), url, postgres.Config{}); !errors.Is(err, store.ErrNewerSchema) {
		t.Errorf("got %v", err)
	}
}

func TestSchemasAreApart(t *testing.T) {
	url := pgtest.URL(t)
	for _, schema := range []string{"", `odd "name".x`} {
		s, err := postgres.Open(t.Context(), url, postgres.Config{Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		if row := claim(t, s, "s"); row.Epoch != 1 {
			t.Errorf("schema %q: %+v", schema, row)
		}
		s.Close()
	}
}

// Tables that another role made need no more than the rights to use them.
func TestARoleWithoutTheRightToCreateServes(t *testing.T) {
	url := pgtest.URL(t)
	open(t, url)
	db := raw(t, url)
	role := fmt.Sprintf("worker_%d", time.Now().UnixNano())
	for _, sql := range []string{
		"CREATE ROLE %s LOGIN PASSWORD 'x'", "GRANT USAGE ON SCHEMA rillkeep TO %s",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA rillkeep TO %s",
	} {
		if _, err := db.Exec(t.Context(), fmt.Sprintf(sql, role)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if _, err := db.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), fmt.Sprintf("host=%s port=%d dbname=%s user=%s password=x",
		cfg.Host, cfg.Port, cfg.Database, role), postgres.Config{})
	if err != nil {
		t.Fatal(err)
	}
	claim(t, s, "s")
	s.Close()
}

func TestNoErrorShowsAPassword(t *testing.T) {
	for _, url := range []string{
		"postgres://u:s3cr3t@127.0.0.1:1/db?connect_timeout=1", "postgres://u:s3cr3t@host:bad/db", "postgres://u:s3/cr3t@host/db",
		"postgres://u:a@s3cr3t@host:bad/db", "postgres://u:%zzs3cr3t@host/db", "postgres://u:s3cr3t@host/db?pool_max_conns=many",
		"host=127.0.0.1 port=bad password = 's3cr3t x'", "u:s3cr3t@host", "postgres://u:s3cr3t`: x@host:bad/db",
	} {
		_, err := postgres.Open(t.Context(), url, postgres.Config{})
		if err == nil || strings.Contains(err.Error(), "cr3t") {
			t.Errorf("%s: got %v", url, err)
		}
	}
}

func TestAnUnreachableDatabaseFailsTheOpenInTime(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := postgres.Open(ctx, "host=/nowhere user=u dbname=d", postgres.Config{}); err == nil {
		t.Error("no error")
	}
}

func TestSessionsAreBounded(t *testing.T) {
	url := pgtest.URL(t)
	for suffix, want := range map[string]string{"": "rillkeep 30s 10s", "&application_name=mine&statement_timeout=5s": "mine 5s 10s"} {
		s := open(t, url+suffix)
		if got := postgres.Settings(t, s); got != want {
			t.Errorf("%q: got %q, want %q", suffix, got, want)
		}
	}
}

func TestAppendsAreHeapOnlyAndIdsAreComparedByBytes(t *testing.T) {
	url := pgtest.URL(t)
	s, db := open(t, url), raw(t, url)
	row := claim(t, s, "s")
	const appends = 200
	for range appends {
		var err error
		row, err = s.Append(t.Context(), plane.Slice{ID: "s", Token: token, From: row.Seq, Seq: row.Seq + 1, Text: "x"})
		if err != nil {
			t.Fatal(err)
		}
	}
	s.Close() // sessions report what they did when they end
	var all, hot int64
	for deadline := time.Now().Add(time.Minute); all < appends && time.Now().Before(deadline); {
		err := db.QueryRow(t.Context(), "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'streams'").Scan(&all, &hot)
		if err != nil {
			t.Fatal(err)
		}
	}
	if all != appends || hot < appends*9/10 {
		t.Errorf("%d of %d updates are heap-only", hot, all)
	}
	var collation string
	err := db.QueryRow(t.Context(), `
		SELECT string_agg(DISTINCT c.collname, ' ') FROM pg_attribute a JOIN pg_collation c ON c.oid = a.attcollation
		WHERE a.attrelid IN ('rillkeep.streams'::regclass, 'rillkeep.chunks'::regclass) AND a.attname IN ('id', 'stream_id', 'host')`).
		Scan(&collation)
	if err != nil || collation != "C" {
		t.Errorf("the ids' collation is %q (%v)", collation, err)
	}
}

func BenchmarkAppend(b *testing.B) {
	storetest.BenchmarkAppend(b, func(b *testing.B) store.Store { return open(b, pgtest.URL(b)) })
}

func BenchmarkText(b *testing.B) {
	storetest.BenchmarkText(b, func(b *testing.B) store.Store { return open(b, pgtest.URL(b)) })
}
