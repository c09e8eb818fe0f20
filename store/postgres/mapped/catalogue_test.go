package mapped_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/postgres"
	"rillkeep.dev/rillkeep/store/postgres/mapped"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// faults are what can be wrong with the tables of full, by the statements that
// make it so; want is what the message begins with, up to the SQL that mends it.
var faults = map[string]struct {
	sql, want string
	beyond    bool // an ALTER TABLE does not mend it
}{
	"no message table":        {sql: `DROP TABLE message`, want: `there is no table "message" for messages: create it, or name another`, beyond: true},
	"a view for messages":     {sql: `ALTER TABLE message RENAME TO m; CREATE VIEW message AS SELECT * FROM m`, want: `"message", named for messages, is no table: `, beyond: true},
	"no chunk table":          {sql: `DROP TABLE message_chunk`, want: `there is no table "message_chunk" for chunks: `},
	"no column":               {sql: `ALTER TABLE message DROP COLUMN body`, want: `table "message" has no column "body" for a message's body: `},
	"no optional column":      {sql: `ALTER TABLE message DROP COLUMN cancel_requested`, want: `table "message" has no column "cancel_requested" for a message's cancel: `},
	"no chunk column":         {sql: `ALTER TABLE message_chunk DROP COLUMN text`, want: `table "message_chunk" has no column "text" for a chunk's text: `},
	"a key that is a number":  {sql: `ALTER TABLE message ALTER COLUMN id TYPE bigint USING 0`, want: `column "id" of table "message", for a message's id, is bigint and must be text, varchar or uuid: `},
	"a key that is padded":    {sql: `ALTER TABLE message ALTER COLUMN id TYPE char(36)`, want: `column "id" of table "message", for a message's id, is character(36) and must be text, varchar or uuid: `},
	"a key of many":           {sql: `ALTER TABLE message DROP CONSTRAINT message_pkey; ALTER TABLE message ADD PRIMARY KEY (id, seq)`, want: `column "id" of table "message", for a message's id, is not unique by itself: `},
	"a key of some":           {sql: `ALTER TABLE message DROP CONSTRAINT message_pkey; CREATE UNIQUE INDEX ON message (id) WHERE author IS NULL`, want: `column "id" of table "message", for a message's id, is not unique by itself: `},
	"a chunk key of none":     {sql: `ALTER TABLE message_chunk DROP CONSTRAINT message_chunk_pkey`, want: `column "id" of table "message_chunk", for a chunk's id, is not unique by itself: `},
	"keys that are alike":     {sql: `CREATE COLLATION alike (provider = icu, locale = 'und-u-ks-level2', deterministic = false); ALTER TABLE message ALTER COLUMN id TYPE text COLLATE alike`, want: `column "id" of table "message", for a message's id, has a collation in which different texts are equal: `},
	"a length that is text":   {sql: `ALTER TABLE message ALTER COLUMN seq DROP DEFAULT; ALTER TABLE message ALTER COLUMN seq TYPE text`, want: `column "seq" of table "message", for a message's seq, is text and must be bigint or integer: `},
	"a length that is small":  {sql: `ALTER TABLE message ALTER COLUMN seq TYPE smallint`, want: `column "seq" of table "message", for a message's seq, is smallint and must be bigint or integer: `},
	"a length that is NULL":   {sql: `ALTER TABLE message ALTER COLUMN seq DROP NOT NULL; INSERT INTO message (id, seq) VALUES ('s', NULL)`, want: `column "seq" of table "message", for a message's seq, may be NULL: `},
	"an offset that is NULL":  {sql: `ALTER TABLE message_chunk ALTER COLUMN seq DROP NOT NULL`, want: `column "seq" of table "message_chunk", for a chunk's seq, may be NULL: `},
	"a body that is short":    {sql: `ALTER TABLE message ALTER COLUMN body TYPE varchar(500)`, want: `column "body" of table "message", for a message's body, is character varying(500) and must be text: `},
	"a body that is JSON":     {sql: `ALTER TABLE message ALTER COLUMN body DROP DEFAULT; ALTER TABLE message ALTER COLUMN body TYPE jsonb USING NULL`, want: `column "body" of table "message", for a message's body, is jsonb and must be text: `},
	"a body that is computed": {sql: `ALTER TABLE message DROP COLUMN body; ALTER TABLE message ADD COLUMN body text GENERATED ALWAYS AS (id) STORED`, want: `column "body" of table "message", for a message's body, is generated, and so can't be written: `, beyond: true},
	"a status that is short":  {sql: `ALTER TABLE message ALTER COLUMN status TYPE varchar(10)`, want: `column "status" of table "message", for a message's status, is character varying(10) and must be text, or an enum, that has Rillkeep's words: `},
	"a status without a word": {sql: `DROP INDEX message_streaming; CREATE TYPE state AS ENUM ('streaming', 'complete', 'cancelled', 'error'); ALTER TABLE message ALTER COLUMN status DROP DEFAULT; ALTER TABLE message ALTER COLUMN status TYPE state USING NULL`, want: `column "status" of table "message", for a message's status, is an enum without 'interrupted': `},
	"a status that is bound":  {sql: `ALTER TABLE message ADD CONSTRAINT known CHECK (author IS NULL OR status <> 'error'), ADD CHECK (status IN ('pending', 'streaming', 'complete', 'error'))`, want: `constraint "message_status_check" of table "message" refuses 'cancelled', 'interrupted', which column "status" is to hold: `},
	"a status in quotes":      {sql: `DROP INDEX message_streaming; CREATE TYPE state AS ENUM ('draft', 'streaming', 'complete', 'cancelled', 'error', 'interrupted'); ALTER TABLE message ALTER COLUMN status DROP DEFAULT; ALTER TABLE message ALTER COLUMN status TYPE state USING NULL; ALTER TABLE message ADD CONSTRAINT "Is ""it""" CHECK (status < 'interrupted')`, want: `constraint "Is \"it\"" of table "message" refuses 'interrupted', which column "status" is to hold: `},
	"an unlogged table":       {sql: `ALTER TABLE message SET UNLOGGED`, want: `table "message" is unlogged, and so will be empty after a crash: `},
	"an unlogged chunk table": {sql: `ALTER TABLE message_chunk SET UNLOGGED`, want: `table "message_chunk" is unlogged, and so will be empty after a crash: `},
	"a host that is short":    {sql: `ALTER TABLE message ALTER COLUMN host TYPE varchar(36)`, want: `column "host" of table "message", for a message's host, is character varying(36) and must be text, or varchar of 255 characters at least: `},
	"a flag that is a number": {sql: `ALTER TABLE message ALTER COLUMN cancel_requested DROP DEFAULT; ALTER TABLE message ALTER COLUMN cancel_requested TYPE integer USING 0`, want: `column "cancel_requested" of table "message", for a message's cancel, is integer and must be boolean: `},
	"an error that must be":   {sql: `ALTER TABLE message ALTER COLUMN error SET NOT NULL`, want: `column "error" of table "message", for a message's error, may not be NULL, which says that there was no error: `},
	"a stream that is short":  {sql: `ALTER TABLE message_chunk ALTER COLUMN "streamId" TYPE varchar(36)`, want: `column "streamId" of table "message_chunk", for a chunk's stream, is character varying(36) and must be text, or of the key's type: `},
	"a stream that is a uuid": {sql: `ALTER TABLE message_chunk ALTER COLUMN "streamId" TYPE uuid USING NULL`, want: `column "streamId" of table "message_chunk", for a chunk's stream, is uuid and must be text, or of the key's type: `},
	"a column too many":       {sql: `ALTER TABLE message_chunk ADD COLUMN tenant text NOT NULL`, want: `column "tenant" of table "message_chunk", which is not named, may not be NULL and has no default: `},
	"no index":                {sql: `DROP INDEX message_chunk_stream_seq`, want: `table "message_chunk" has no index on ("streamId", "seq"): `},
}

func TestAFaultOfTheTablesSaysWhatToChangeAndThatMendsIt(t *testing.T) {
	url := pgtest.URL(t)
	db := raw(t, url)
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			anew(t, db)
			exec(t, db, fault.sql)
			said := refused(t, url, full.tables)
			if len(said) != 1 || !strings.HasPrefix(said[0], fault.want) {
				t.Fatalf("said %q, want %q", said, fault.want)
			}
			if fault.beyond {
				return
			}
			mend := strings.TrimSuffix(strings.TrimPrefix(said[0], fault.want), "; or name another")
			exec(t, db, mend)
			shut(t, open(t, url, full.tables))
		})
	}
}

func TestAllFaultsAreSaidAtOnce(t *testing.T) {
	url := pgtest.URL(t)
	db := raw(t, url)
	anew(t, db)
	exec(t, db, "ALTER TABLE message DROP COLUMN host, ALTER COLUMN seq DROP NOT NULL; DROP TABLE message_chunk")
	if said := refused(t, url, full.tables); len(said) != 3 {
		t.Errorf("said %q", said)
	}
}

func TestARoleThatMayNotUseTheTablesIsToldWhatToGrant(t *testing.T) {
	url := pgtest.URL(t)
	db := raw(t, url)
	anew(t, db)
	as, _ := role(t, db)
	said := refused(t, as, full.tables)
	if len(said) != 2 {
		t.Fatalf("said %q", said)
	}
	for _, fault := range said {
		_, grant, _ := strings.Cut(fault, ": ")
		exec(t, db, grant)
	}
	exec(t, db, "INSERT INTO message (id) VALUES ('s')")
	for _, needs := range []string{"run `rillkeep migrate`", "GRANT USAGE ON SCHEMA rillkeep TO ", "GRANT SELECT, INSERT, UPDATE, DELETE ON rillkeep.nodes TO "} {
		_, err := mapped.Open(t.Context(), as, "", full.tables)
		if !errors.Is(err, plane.ErrConfig) || !strings.Contains(err.Error(), needs) {
			t.Fatalf("got %v, want %s", err, needs)
		}
		_, grant, _ := strings.Cut(err.Error(), ": GRANT ")
		if grant == "" {
			_, err = postgres.Migrate(t.Context(), url, postgres.Config{})
		} else {
			_, err = db.Exec(t.Context(), "GRANT "+grant)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, as, full.tables)
	row := claim(t, s, "s")
	row = appended(t, s, "s", row, "abc")
	if _, err := s.Seal(t.Context(), plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, From: 3, Seq: 3, Text: "abc"}); err != nil {
		t.Error(err)
	}
	shut(t, s) // before the role is dropped
}

func TestADatabaseThatIsNotThereIsNoFaultOfTheTables(t *testing.T) {
	_, err := mapped.Open(t.Context(), "postgres://u:s3cr3t@127.0.0.1:1/db?connect_timeout=1", "", full.tables)
	if err == nil || errors.Is(err, plane.ErrConfig) || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("got %v", err)
	}
}

// anew makes the tables of full, and nothing else.
func anew(t *testing.T, db *pgxpool.Pool) {
	t.Helper()
	exec(t, db, "DROP SCHEMA IF EXISTS rillkeep CASCADE; DROP SCHEMA public CASCADE; CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO public")
	full.create(t, db)
}

// refused answers the faults for which tables are refused.
func refused(t *testing.T, url string, tables mapped.Tables) []string {
	t.Helper()
	s, err := mapped.Open(t.Context(), url, "", tables)
	if err == nil {
		shut(t, s)
	}
	if !errors.Is(err, plane.ErrConfig) {
		t.Fatalf("got %v", err)
	}
	lines := strings.Split(err.Error(), "\n  ")
	return lines[1:]
}

func exec(t *testing.T, db *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// leases lets a role use the leases of nodes, and makes them if need be.
func leases(t *testing.T, db *pgxpool.Pool, role string) {
	t.Helper()
	if _, err := postgres.Migrate(t.Context(), db.Config().ConnString(), postgres.Config{}); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "GRANT USAGE ON SCHEMA rillkeep TO "+role+"; GRANT SELECT ON rillkeep.versions TO "+role+
		"; GRANT SELECT, INSERT, UPDATE, DELETE ON rillkeep.nodes TO "+role)
}

// role makes a role that may do nothing, and answers how to connect as it.
func role(t *testing.T, db *pgxpool.Pool) (url, name string) {
	t.Helper()
	name = fmt.Sprintf("worker_%d", time.Now().UnixNano())
	exec(t, db, "CREATE ROLE "+name+" LOGIN PASSWORD 'x'")
	t.Cleanup(func() {
		if _, err := db.Exec(context.Background(), "DROP OWNED BY "+name+"; DROP ROLE "+name); err != nil {
			t.Error(err)
		}
	})
	cfg := db.Config().ConnConfig
	return fmt.Sprintf("host=%s port=%d dbname=%s user=%s password=x", cfg.Host, cfg.Port, cfg.Database, name), name
}
