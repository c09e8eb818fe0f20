// Package mapped keeps streams in an application's own tables in PostgreSQL: a
// message table whose rows the application makes, one for each stream that it
// will open, and a chunk table beside it. Tables names them; Tables.DDL makes the
// chunk table.
//
// What a stream does to its message is to set status and length while it lives,
// and body, status, length and error at its end; a checkpoint is a chunk row. All
// else in the row is the application's, which may lock it as it likes: a call
// that finds it locked answers store.ErrBusy, an append at once, others within a
// second. A message can be opened when its length is 0, its body empty, no chunk
// of it left, and its status not streaming; one that is not of plane's words, NULL
// included, counts as pending.
//
// Columns that are not named cost what they are for:
//
//   - host holds the owner token, which every write is guarded by. Without it
//     writes are guarded by the length and the status alone: still one of many
//     opens wins, and a repeat adds nothing, but a writer that was paused while
//     its message was ended and opened anew could write to it where the lengths
//     agree; and there are no leases: what a node leaves streaming when it dies
//     stays so, whatever the next one is called, until the application sets its
//     status; Advice counts such rows. An open of one is refused as held by
//     another, but for the node whose own claim it is, of which the answer was lost,
//     for ten minutes and as long as it runs. A database that went back behind what
//     it had confirmed is taken for another writer.
//   - cancel is the cancel flag. Without it there is nothing that a Cancel could
//     set, and it answers store.ErrNoCancel.
//   - error takes the message of a stream that failed. Without it only the status
//     says so.
//
// There is no place for a claim's producer and meta, nor for times: a
// store.Stream has none of them. The epoch is kept in the owner token; without a
// host column it is always 1.
package mapped

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/group"
	"rillkeep.dev/rillkeep/store/internal/pg"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// Store is a store.Store in an application's tables. Lists are in the order of
// the key column, whose collation decides; they hold every message, whether or
// not it ever was a stream.
type Store struct {
	pool    *pgxpool.Pool
	reader  pg.Reader
	has     Tables // which columns there are
	key     found  // the message table's key
	stmt    statements
	appends *group.Group
	name    pg.Name
	feed    pg.Feed
	leases  *pg.Leases
	calls   rows.Calls // the pool itself knows those under way that use it

	mu     sync.Mutex       // guards below
	doubts map[string]doubt // claims of a table without tokens, by id
}

var (
	_ store.Store  = (*Store)(nil)
	_ store.Named  = (*Store)(nil)
	_ store.Shared = (*Store)(nil)
)

// Open connects to the database of url, as postgres.Open does, and looks whether
// its tables are what t says. If not it answers a plane.ErrConfig that lists every
// fault and how to mend it. In the application's schemas nothing is created; where
// a host column is named, the schema rillkeep is brought up to this release, as by
// postgres.Open, since the nodes' leases are there.
//
// direct is a way to the same database past a pooler, for the sessions that hold
// the node's name and hear the change feed; "" means url, which then must not lead
// to a pooler that takes sessions apart.
func Open(ctx context.Context, url, direct string, t Tables) (*Store, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	t = t.withDefaults()
	pool, own, err := pg.Open(ctx, url, direct)
	if err != nil {
		return nil, err
	}
	s, err := newStore(ctx, pool, own, t)
	if err == nil && t.Host != "" {
		err = s.migrate(ctx, url)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

func newStore(ctx context.Context, pool *pgxpool.Pool, direct *pgx.ConnConfig, t Tables) (*Store, error) {
	l, err := lookUp(ctx, pool, t)
	if errors.Is(err, plane.ErrConfig) {
		return nil, err
	}
	if err != nil {
		return nil, pg.Failed(ctx, err, "open tables of the application")
	}
	s := &Store{
		pool: pool, has: t, key: l.message.columns[t.Key], stmt: l.statements(),
		name: pg.NewName(direct), doubts: make(map[string]doubt),
	}
	s.feed = pg.NewFeed(pool, direct, channel(l.message))
	s.leases = pg.NewLeases(pool, schema, &s.calls)
	s.reader = s.newReader()
	s.appends = group.New(s.appender())
	return s, nil
}

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.pool.Ping(ctx); err != nil {
		return pg.Failed(ctx, err, "ping database")
	}
	return nil
}

// Advice answers what an operator should know of the database, and do.
func (s *Store) Advice(ctx context.Context) (advice []string, err error) {
	text, err := pg.Unbounded(ctx, s.pool)
	if text != "" {
		advice = append(advice, text)
	}
	if err != nil || s.has.Host != "" {
		return advice, err
	}
	const what = "the message table has no column for host: what a node that dies leaves streaming stays so until the application ends it"
	var n int
	switch err := s.pool.QueryRow(ctx, s.stmt.streaming).Scan(&n); {
	case err != nil: // as in a table that is read through for too long
		return append(advice, what), pg.Failed(ctx, err, "count streaming rows")
	case n == 0:
		return append(advice, what), nil
	}
	return append(advice, fmt.Sprintf("%s; %d of its rows say streaming now: those of nodes that are gone can't be opened, nor told from others", what, n)), nil
}

// Close waits for calls under way and closes the connections. See store.Store.
func (s *Store) Close(ctx context.Context) error {
	return s.calls.Close(ctx, func() error {
		s.appends.Wait()
		s.pool.Close()
		return errors.Join(s.leases.Close(), s.name.Release()) // when nothing is written any more
	})
}

// known reports whether id can be a key at all. A uuid has many spellings; a
// stream has one name.
func (s *Store) known(id string) bool { return !s.key.uuid() || canonical(id) }

// canonical reports whether id is a uuid as PostgreSQL writes it.
func canonical(id string) bool {
	if len(id) != len("00000000-0000-0000-0000-000000000000") {
		return false
	}
	for n := range len(id) {
		hyphen := n == 8 || n == 13 || n == 18 || n == 23
		digit := id[n] >= '0' && id[n] <= '9' || id[n] >= 'a' && id[n] <= 'f'
		if hyphen && id[n] != '-' || !hyphen && !digit {
			return false
		}
	}
	return true
}

// row runs a statement that answers rows.Columns, for the row of id.
func (s *Store) row(ctx context.Context, sql, id string, args ...any) (row plane.Row, err error) {
	if !s.known(id) {
		return row, fmt.Errorf("%w: its key would be a uuid", plane.ErrNotFound)
	}
	err = rows.Scan(s.pool.QueryRow(ctx, sql, append([]any{id}, args...)...), &row, nil)
	return row, err
}
