// Package postgres keeps streams in PostgreSQL, the database of a cluster.
//
// It makes its own tables in a schema of its own. An open is one statement and one
// round trip, and so are the appends of all streams that are ready together; a seal
// is one round trip of two statements. A row that another session has locked
// answers store.ErrBusy, an append within 20 ms, what else writes within a second,
// and keeps no connection meanwhile.
//
// Get, List and Text share all connections of the pool but three, so that checkpoints
// don't wait behind readers. Beside its pool a store has connections of its own: from the first TakeName on
// one whose session holds the node's name, from the first Renew on one for the
// node's lease, and one that listens to the change feed. A pooler that gives
// sessions away between transactions, such as PgBouncer, may carry all but the
// name and the feed: see Config.DirectURL.
//
// Where connections to the server are lost, as in a failover, the next call has a
// fresh one; no call is repeated here. What the server refuses for good, because
// a constraint was added or a right is missing, is plane.ErrBroken.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/group"
	"rillkeep.dev/rillkeep/store/internal/pg"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// Config is how to use a database. The zero Config is usable.
type Config struct {
	// Schema holds the tables, and names the channel of the change feed; of 63
	// bytes at the most. "" means rillkeep.
	Schema string

	// DirectURL is a way to the same database past a pooler, for what needs a
	// session of its own: the node's name and the change feed. One that leads
	// elsewhere is refused. "" means the store's URL, which then must not lead to a
	// pooler that takes sessions apart.
	DirectURL string
}

// Store is a store.Store in PostgreSQL.
type Store struct {
	pool    *pgxpool.Pool
	reader  pg.Reader
	schema  string
	named   *strings.Replacer // puts the schema's name into SQL
	stmt    statements
	appends *group.Group
	feed    pg.Feed
	name    pg.Name
	leases  *pg.Leases
	calls   rows.Calls // the pool itself knows those of others that use it
}

var (
	_ store.Store  = (*Store)(nil)
	_ store.Named  = (*Store)(nil)
	_ store.Shared = (*Store)(nil)
)

// Open connects to the database of url, a postgres:// URL or a keyword string
// as libpq takes them, with pgx's pool_* settings; and brings its tables up to
// this release. It fails unless that is done before ctx ends, with
// plane.ErrConfig if the URL is none. No error that it or the store answers shows
// the URL.
func Open(ctx context.Context, url string, cfg Config) (*Store, error) {
	s, _, err := openMigrated(ctx, url, cfg)
	return s, err
}

func openMigrated(ctx context.Context, url string, cfg Config) (*Store, Migration, error) {
	if len(cfg.Schema) > pg.MaxName {
		return nil, Migration{}, fmt.Errorf("%w: a schema's name has %d bytes at the most: %q", plane.ErrConfig, pg.MaxName, cfg.Schema)
	}
	pool, direct, err := pg.Open(ctx, url, cfg.DirectURL)
	if err != nil {
		return nil, Migration{}, err
	}
	s := &Store{pool: pool, schema: cmp.Or(cfg.Schema, "rillkeep"), name: pg.NewName(direct)}
	s.feed = pg.NewFeed(pool, direct, s.schema)
	s.leases = pg.NewLeases(pool, s.schema, &s.calls)
	s.named = pg.Named(s.schema)
	s.stmt = s.statements()
	s.reader = s.newReader()
	s.appends = group.New(s.appender())
	done, err := s.migrate(ctx)
	if err != nil {
		pool.Close()
		return nil, Migration{}, pg.Failed(ctx, err, "migrate schema %q", s.schema)
	}
	return s, done, nil
}

// sql is a statement with the schema's own name in it.
func (s *Store) sql(text string) string { return s.named.Replace(text) }

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.pool.Ping(ctx); err != nil {
		return pg.Failed(ctx, err, "ping database")
	}
	return nil
}

// Advice answers what an operator should know of the database, and do.
func (s *Store) Advice(ctx context.Context) ([]string, error) {
	text, err := pg.Unbounded(ctx, s.pool)
	if text == "" {
		return nil, err
	}
	return []string{text}, nil
}

// Close waits for calls under way and closes the connections. See store.Store.
func (s *Store) Close(ctx context.Context) error {
	return s.calls.Close(ctx, func() error {
		s.appends.Wait()
		s.pool.Close()
		return errors.Join(s.leases.Close(), s.name.Release()) // when nothing is written any more
	})
}
