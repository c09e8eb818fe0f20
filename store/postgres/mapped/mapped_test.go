package mapped_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres/mapped"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
	"rillkeep.dev/rillkeep/store/storetest"
)

// application is tables as an application has them.
type application struct {
	tables mapped.Tables
	ddl    string // of all but the chunk table
}

var (
	// full has a column for everything.
	full = application{
		mapped.Tables{Message: "message", Chunks: "message_chunk", Host: "host", Cancel: "cancel_requested", Error: "error"},
		`CREATE TABLE message (
			id text PRIMARY KEY, body text NOT NULL DEFAULT '', status text DEFAULT 'pending', seq bigint NOT NULL DEFAULT 0,
			host text, cancel_requested boolean NOT NULL DEFAULT false, error text, author text)`,
	}
	// bare has what must be, and columns by the names of the others that are none
	// of Rillkeep's business. It is in partitions.
	bare = application{
		mapped.Tables{Message: "message", Chunks: "message_chunk"},
		`CREATE TABLE message (
			id varchar(256) PRIMARY KEY, body text, status varchar(11), seq integer NOT NULL,
			host integer, cancel text, error boolean) PARTITION BY HASH (id);
		CREATE TABLE message_0 PARTITION OF message FOR VALUES WITH (MODULUS 2, REMAINDER 0);
		CREATE TABLE message_1 PARTITION OF message FOR VALUES WITH (MODULUS 2, REMAINDER 1)`,
	}
	// odd has names that must be quoted, in a schema that is in no search path, and
	// an enum.
	odd = application{
		mapped.Tables{
			Message: "My App.Select", Chunks: "My App.Chunks of 'it'", Key: "ID", Body: "order", Status: "State; --",
			Seq: "units.in", Host: "üser", Cancel: "$1", Error: "{row}",
			ChunkKey: "Key", ChunkStream: "from", ChunkSeq: "END", ChunkText: "te xt",
		},
		`CREATE SCHEMA "My App";
		CREATE TYPE "My App"."State" AS ENUM ('draft', 'streaming', 'complete', 'cancelled', 'error', 'interrupted');
		CREATE TABLE "My App"."Select" (
			"ID" text UNIQUE, "order" text, "State; --" "My App"."State", "units.in" int NOT NULL DEFAULT 0,
			"üser" varchar(255), "$1" boolean, "{row}" text)`,
	}
)

// create makes the tables in an empty database.
func (a application) create(tb testing.TB, db *pgxpool.Pool) {
	tb.Helper()
	ddl, err := a.tables.DDL()
	if err != nil {
		tb.Fatal(err)
	}
	for _, sql := range []string{a.ddl, ddl, ddl} { // which can be run again
		if _, err := db.Exec(tb.Context(), sql); err != nil {
			tb.Fatalf("%s: %v", sql, err)
		}
	}
}

// open answers a store over new tables, and the way past it.
func (a application) open(tb testing.TB) (*mapped.Store, *backdoor) {
	tb.Helper()
	url := pgtest.URL(tb)
	db := raw(tb, url)
	a.create(tb, db)
	s := open(tb, url, a.tables)
	return s, &backdoor{Store: s, tb: tb, db: db, app: a, url: url}
}

func open(tb testing.TB, url string, t mapped.Tables) *mapped.Store {
	tb.Helper()
	s, err := mapped.Open(tb.Context(), url, "", t)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { shut(tb, s) })
	return s
}

func shut(tb testing.TB, s store.Store) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		tb.Errorf("close: %v", err)
	}
}

func raw(tb testing.TB, url string) *pgxpool.Pool {
	tb.Helper()
	db, err := pgxpool.New(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(db.Close)
	return db
}

func TestStore(t *testing.T) {
	for name, app := range map[string]application{"full": full, "bare": bare, "odd": odd} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			app.testStore(t, url, url, "")
		})
	}
}

func TestStoreByWayOfAPooler(t *testing.T) {
	for name, app := range map[string]application{"full": full, "bare": bare} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			app.testStore(t, url, pgtest.Bouncer(t, url), url)
		})
	}
}

// testStore holds a store to its contract that is reached by way and direct.
func (a application) testStore(t *testing.T, url, way, direct string) {
	lacks := storetest.Lacks{
		Rows: true, Details: true,
		Tokens: a.tables.Host == "", Cancel: a.tables.Cancel == "", Error: a.tables.Error == "",
	}
	db := raw(t, url)
	a.create(t, db)
	storetest.RunLacking(t, lacks, func(tb testing.TB) store.Store {
		s, err := mapped.Open(tb.Context(), way, direct, a.tables)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { shut(tb, s) })
		door := &backdoor{Store: s, tb: tb, db: db, app: a, url: url}
		door.exec("TRUNCATE {messages}, {chunks}")
		return door
	})
}

// backdoor is the application's own SQL.
type backdoor struct {
	store.Store
	tb  testing.TB
	db  *pgxpool.Pool
	app application
	url string
}

// sql puts the application's names for those in braces.
func (b *backdoor) sql(text string) string {
	t := b.app.tables
	quote := func(name, byDefault string) string {
		if name == "" {
			name = byDefault
		}
		return pgx.Identifier{name}.Sanitize()
	}
	table := func(name string) string { return pgx.Identifier(strings.Split(name, ".")).Sanitize() }
	return strings.NewReplacer(
		"{messages}", table(t.Message), "{chunks}", table(t.Chunks), "{id}", quote(t.Key, "id"), "{body}", quote(t.Body, "body"),
		"{status}", quote(t.Status, "status"), "{seq}", quote(t.Seq, "seq"), "{chunk}", quote(t.ChunkKey, "id"),
		"{stream}", quote(t.ChunkStream, "streamId"), "{end}", quote(t.ChunkSeq, "seq"), "{text}", quote(t.ChunkText, "text"),
		"{host}", quote(t.Host, ""), "{cancel}", quote(t.Cancel, ""), "{error}", quote(t.Error, ""),
	).Replace(text)
}

var epochs = regexp.MustCompile(`/(\d+)$`)

func (b *backdoor) Row(id string) (row storetest.Row, ok bool) {
	b.tb.Helper()
	columns, t := "coalesce({body}, ''), {seq}, coalesce({status}::text, '')", b.app.tables
	dest := []any{&row.Body, &row.Seq, &row.Status}
	var message *string
	for _, c := range []struct {
		name, sql string
		dest      any
	}{{t.Host, "coalesce({host}, '')", &row.Token}, {t.Cancel, "coalesce({cancel}, false)", &row.Cancel}, {t.Error, "{error}", &message}} {
		if c.name != "" {
			columns += ", " + c.sql
			dest = append(dest, c.dest)
		}
	}
	err := b.db.QueryRow(b.tb.Context(), b.sql("SELECT "+columns+" FROM {messages} WHERE {id} = $1"), id).Scan(dest...)
	ok = !errors.Is(err, pgx.ErrNoRows)
	if ok && err != nil {
		b.tb.Fatal(err)
	}
	if message != nil {
		row.Error, row.HasError = *message, true
	}
	if epoch := epochs.FindStringSubmatch(row.Token); epoch != nil {
		row.Epoch, _ = strconv.ParseInt(epoch[1], 10, 64)
	}
	chunks, err := b.db.Query(b.tb.Context(), b.sql("SELECT {end}, {text} FROM {chunks} WHERE {stream} = $1 ORDER BY {end}"), id)
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

// Edit makes a row whose status is NULL if there is none.
func (b *backdoor) Edit(id string, edit func(*storetest.Row)) {
	b.tb.Helper()
	row, _ := b.Row(id)
	edit(&row)
	var status, message *string
	if row.Status != "" {
		status = new(string(row.Status))
	}
	if row.HasError {
		message = &row.Error
	}
	b.exec("DELETE FROM {messages} WHERE {id} = $1", id)
	columns, values, args := "{id}, {body}, {seq}, {status}", "$1, $2, $3, $4", []any{id, row.Body, row.Seq, status}
	t := b.app.tables
	for _, c := range []struct {
		name, column string
		value        any
	}{{t.Host, "{host}", row.Token}, {t.Cancel, "{cancel}", row.Cancel}, {t.Error, "{error}", message}} {
		if c.name != "" {
			args = append(args, c.value)
			columns, values = columns+", "+c.column, values+fmt.Sprintf(", $%d", len(args))
		}
	}
	b.exec("INSERT INTO {messages} ("+columns+") VALUES ("+values+")", args...)
	b.exec("DELETE FROM {chunks} WHERE {stream} = $1", id)
	for _, c := range row.Chunks {
		b.exec("INSERT INTO {chunks} ({chunk}, {stream}, {end}, {text}) VALUES ($1, $2, $3, $4)", fmt.Sprintf("%s:%d", id, c.Seq), id, c.Seq, c.Text)
	}
}

func (b *backdoor) Delete(id string) {
	b.tb.Helper()
	b.exec("DELETE FROM {messages} WHERE {id} = $1", id)
}

func (b *backdoor) exec(sql string, args ...any) {
	b.tb.Helper()
	if _, err := b.db.Exec(b.tb.Context(), b.sql(sql), args...); err != nil {
		b.tb.Fatalf("%s: %v", b.sql(sql), err)
	}
}
