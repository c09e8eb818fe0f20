// Package postgres keeps streams in PostgreSQL, the database of a cluster.
//
// It makes its own tables in a schema of its own. An append and an open are one
// statement and one round trip each, a seal one round trip of two statements. A
// row that another session has locked answers store.ErrBusy, an append at once,
// what else writes within a second, and keeps no connection meanwhile.
//
// Beside its pool a store has one connection of its own, from the first
// Interrupt on, whose session holds the node's name. A pooler that gives sessions
// away between transactions, such as PgBouncer, may carry all but that: see
// Config.DirectURL.
//
// Where connections to the server are lost, as in a failover, the next call has a
// fresh one; no call is repeated here. What the server refuses for good, because
// a constraint was added or a right is missing, is plane.ErrBroken.
package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// Config is how to use a database. The zero Config is usable.
type Config struct {
	// Schema holds the tables. "" means rillkeep.
	Schema string

	// DirectURL is a way to the same database past a pooler, for what needs a
	// session of its own: the node's name. "" means the store's URL, which then
	// must not lead to a pooler that takes sessions apart.
	DirectURL string
}

// Store is a store.Store in PostgreSQL.
type Store struct {
	pool   *pgxpool.Pool
	schema string
	named  *strings.Replacer // puts the schema's name into SQL
	stmt   statements
	name   name
	calls  rows.Calls // the pool itself knows those under way that use it
}

var _ store.Store = (*Store)(nil)

// Open connects to the database of url, a postgres:// URL or a keyword string
// as libpq takes them, with pgx's pool_* settings; and brings its tables up to
// this release. It fails unless that is done before ctx ends, with
// plane.ErrConfig if the URL is none. No error that it or the store answers shows
// the URL.
func Open(ctx context.Context, url string, cfg Config) (*Store, error) {
	s, err := open(ctx, url, cfg.Schema, false)
	pooled := pooler(err)
	if pooled {
		s, err = open(ctx, url, cfg.Schema, true)
	}
	if err != nil {
		return nil, err
	}
	s.name.nowhere = pooled && cfg.DirectURL == ""
	if cfg.DirectURL != "" {
		direct, err := parse(cfg.DirectURL, false)
		if err != nil {
			s.pool.Close()
			return nil, fmt.Errorf("direct URL: %w", err)
		}
		s.name = newName(direct.ConnConfig)
	}
	return s, nil
}

func open(ctx context.Context, url, schema string, pooled bool) (*Store, error) {
	pc, err := parse(url, pooled)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	s := &Store{pool: pool, schema: schema, name: newName(pc.ConnConfig)}
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
		return s.name.release() // when nothing is written any more
	})
}
