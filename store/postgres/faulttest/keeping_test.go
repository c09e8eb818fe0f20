package faulttest_test

import (
	"context"
	"fmt"
	"testing"

	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres"
	"rillkeep.dev/rillkeep/store/postgres/mapped"
)

// keeping is where streams are kept.
type keeping struct {
	open    func(ctx context.Context, url string) (store.Store, error)
	prepare string // what is done before
	rows    string // a row of each stream
}

var managed = keeping{
	open: func(ctx context.Context, url string) (store.Store, error) {
		return postgres.Open(ctx, url, postgres.Config{})
	},
	rows: `
		SELECT id, s.seq, status, body, c.ends, c.texts
		FROM rillkeep.streams s, LATERAL (
			SELECT array_agg(seq ORDER BY seq) AS ends, array_agg(text ORDER BY seq) AS texts
			FROM rillkeep.chunks WHERE stream_id = s.id
		) c`,
}

// inTables keeps streams in an application's tables.
func inTables(t *testing.T, tables mapped.Tables) keeping {
	t.Helper()
	ddl, err := tables.DDL()
	if err != nil {
		t.Fatal(err)
	}
	return keeping{
		open: func(ctx context.Context, url string) (store.Store, error) { return mapped.Open(ctx, url, "", tables) },
		prepare: `
			CREATE TABLE message (id text PRIMARY KEY, body text NOT NULL DEFAULT '', status text NOT NULL DEFAULT 'pending',
				seq bigint NOT NULL DEFAULT 0, host text, stop boolean NOT NULL DEFAULT false, error text);
			INSERT INTO message (id) SELECT 's' || lpad(n::text, 3, '0') FROM generate_series(0, 199) n;` + ddl,
		rows: `
			SELECT id, m.seq, status, body, c.ends, c.texts
			FROM message m, LATERAL (
				SELECT array_agg(seq ORDER BY seq) AS ends, array_agg(text ORDER BY seq) AS texts
				FROM message_chunk WHERE "streamId" = m.id
			) c`,
	}
}

// What an application's tables have of their own: rows that are there before, other
// statements, and, without a column for host, no tokens.
func TestMessagesOutliveWhatHappensToTheirDatabase(t *testing.T) {
	for name, tables := range map[string]mapped.Tables{
		"with a column for everything": {Message: "message", Chunks: "message_chunk", Host: "host", Cancel: "stop", Error: "error"},
		"with what must be":            {Message: "message", Chunks: "message_chunk"},
	} {
		for _, fault := range []string{
			"requests that do not arrive", "commits whose answer is lost", "answers that come too late",
			"sessions that are terminated", "ends whose answer is lost",
		} {
			t.Run(fmt.Sprint(name, ", ", fault), func(t *testing.T) {
				t.Parallel()
				faults[fault].happens(t, inTables(t, tables))
			})
		}
	}
}
