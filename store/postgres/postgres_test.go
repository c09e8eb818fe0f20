package postgres_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/rows"
	"rillkeep.dev/rillkeep/store/postgres"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
	"rillkeep.dev/rillkeep/store/postgres/pgtest/server"
	"rillkeep.dev/rillkeep/store/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	testStore(t, pgtest.Pool(t, url), url, postgres.Config{})
}

// testStore holds stores of a database to their contract, each with a schema of its
// own: one is made in less time than a database is.
func testStore(t *testing.T, db *pgxpool.Pool, url string, cfg postgres.Config) {
	schemas := 0
	storetest.Run(t, func(tb testing.TB) store.Store {
		schemas++
		cfg.Schema = fmt.Sprint("schema_", schemas)
		s, err := postgres.Open(tb.Context(), url, cfg)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { pgtest.Close(tb, s) })
		return &backdoor{Store: s, tb: tb, db: db, schema: cfg.Schema}
	})
}

func open(tb testing.TB, url string) *postgres.Store {
	tb.Helper()
	s, err := postgres.Open(tb.Context(), url, postgres.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { pgtest.Close(tb, s) })
	return s
}

type backdoor struct {
	store.Store
	tb     testing.TB
	db     *pgxpool.Pool
	schema string
}

// sql is text for the store's schema.
func (b *backdoor) sql(text string) string {
	return strings.ReplaceAll(text, "rillkeep.", b.schema+".")
}

func (b *backdoor) Row(id string) (storetest.Row, bool) {
	b.tb.Helper()
	row, ok := storetest.Row{}, true
	var message, meta *string
	var ended *time.Time
	err := b.db.QueryRow(b.tb.Context(), b.sql(`
		SELECT body, seq, status, coalesce(host, ''), epoch, cancel, error, coalesce(producer, ''), meta, created_at, updated_at, ended_at
		FROM rillkeep.streams WHERE id = $1`), id).Scan(&row.Body, &row.Seq, &row.Status, &row.Token, &row.Epoch, &row.Cancel,
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
	chunks, err := b.db.Query(b.tb.Context(), b.sql("SELECT seq, text FROM rillkeep.chunks WHERE stream_id = $1 ORDER BY seq"), id)
	if err != nil {
		b.tb.Fatal(err)
	}
	row.Chunks, err = pgx.CollectRows(chunks, pgx.RowToStructByPos[plane.Chunk])
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
		INSERT INTO rillkeep.streams (id, body, marks, seq, status, host, epoch, cancel, error, producer, meta, created_at, updated_at, ended_at)
		VALUES ($1, $2, $3, $4, $5, nullif($6, ''), $7, $8, $9, nullif($10, ''), $11::text::json,
			coalesce($12, now()), coalesce($13, now()), $14)`,
		id, row.Body, rows.Marks(row.Body), row.Seq, row.Status, row.Token, row.Epoch, row.Cancel, message, row.Producer, meta,
		given(row.Created), given(row.Updated), given(row.Ended))
	b.exec("DELETE FROM rillkeep.chunks WHERE stream_id = $1", id)
	for _, c := range row.Chunks {
		b.exec("INSERT INTO rillkeep.chunks (stream_id, seq, text) VALUES ($1, $2, $3)", id, c.Seq, c.Text)
	}
}

// given is a time, nil if there is none.
func given(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (b *backdoor) Delete(id string) {
	b.tb.Helper()
	b.exec("DELETE FROM rillkeep.streams WHERE id = $1", id)
}

func (b *backdoor) exec(sql string, args ...any) {
	b.tb.Helper()
	if _, err := b.db.Exec(b.tb.Context(), b.sql(sql), args...); err != nil {
		b.tb.Fatal(err)
	}
}

func TestAppendsAreHeapOnlyAndIdsAreComparedByBytes(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url), pgtest.Pool(t, url)
	row := claim(t, s, "s")
	const appends = 200
	for range appends {
		var err error
		row, err = s.Append(t.Context(), plane.Slice{ID: "s", Token: token, From: row.Seq, Seq: row.Seq + 1, Text: "x"})
		if err != nil {
			t.Fatal(err)
		}
	}
	pgtest.Close(t, s) // sessions report what they did when they end
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

// The benchmarks are of a server as it is installed, which waits for its disk.
func BenchmarkAppend(b *testing.B) { storetest.BenchmarkAppend(b, openServer) }

func BenchmarkText(b *testing.B) { storetest.BenchmarkText(b, openServer) }

func openServer(b *testing.B) store.Store {
	b.Helper()
	server, err := server.Start(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := server.Stop(); err != nil {
			b.Error(err)
		}
	})
	return open(b, server.URL())
}

// As between an application's tests.
func TestTablesThatWereEmptiedAreAsGoodAsNew(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url), pgtest.Pool(t, url)
	claim(t, s, "s")
	exec(t, db, "TRUNCATE rillkeep.streams, rillkeep.chunks, rillkeep.nodes, rillkeep.epochs")
	if row := claim(t, s, "s"); row.Epoch != 1 {
		t.Errorf("got %+v", row)
	}
	exec(t, db, "UPDATE rillkeep.streams SET status = 'complete', epoch = 7, ended_at = now() - interval '1 day'")
	if n, err := s.DeleteEnded(t.Context(), time.Hour); n != 1 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	if row := claim(t, s, "s"); row.Epoch != 8 {
		t.Errorf("got %+v", row)
	}
}
