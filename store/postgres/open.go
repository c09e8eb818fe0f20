// Package postgres keeps streams in PostgreSQL, the database of a cluster.
//
// It makes its own tables in a schema of its own. An append and an open are one
// statement and one round trip each, a seal one round trip of two statements. A
// row that another session has locked answers store.ErrBusy, an append at once,
// what else writes within a second, and keeps no connection meanwhile.
//
// Beside its pool a store has one connection of its own, from the first
// Interrupt on, whose session holds the node's name: a pooler in between must
// leave sessions whole.
package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/pg"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// Config is how to use a database. The zero Config is usable.
type Config struct {
	// Schema holds the tables. "" means rillkeep.
	Schema string
}

// Store is a store.Store in PostgreSQL.
type Store struct {
	pool   *pgxpool.Pool
	schema string
	named  *strings.Replacer // puts the schema's name into SQL
	stmt   statements
	name   pg.Name
	calls  rows.Calls // the pool itself knows those under way that use it
}

var _ store.Store = (*Store)(nil)

// Open connects to the database of url, a postgres:// URL or a keyword string
// as libpq takes them, with pgx's pool_* settings; and brings its tables up to
// this release. It fails unless that is done before ctx ends. No error that it
// or the store answers shows the URL.
func Open(ctx context.Context, url string, cfg Config) (*Store, error) {
	pool, err := pg.Pool(ctx, url)
	if err != nil {
		return nil, err
	}
	s := &Store{pool: pool, schema: cfg.Schema, name: pg.NewName(pool.Config().ConnConfig)}
	if s.schema == "" {
		s.schema = "rillkeep"
	}
	s.named = strings.NewReplacer("rillkeep.", pgx.Identifier{s.schema}.Sanitize()+".")
	s.stmt = s.statements()
	if err := s.migrate(ctx); err != nil {
		pool.Close()
		return nil, failed(ctx, err, "migrate schema %q", s.schema)
	}
	return s, nil
}

// sql is a statement with the schema's own name in it.
func (s *Store) sql(text string) string { return s.named.Replace(text) }

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.pool.Ping(ctx); err != nil {
		return failed(ctx, err, "ping database")
	}
	return nil
}

// Close waits for calls under way and closes the connections. See store.Store.
func (s *Store) Close(ctx context.Context) error {
	return s.calls.Close(ctx, func() error {
		s.pool.Close()
		return s.name.Release() // when nothing is written any more
	})
}
