package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/store/feed"
	"rillkeep.dev/rillkeep/store/internal/pg"
)

// cancelledSQL: $1 beginning of the token, $2 ids after.
const cancelledSQL = `
	SELECT id FROM rillkeep.streams
	WHERE cancel AND status = 'streaming' AND id > $2 AND starts_with(host, $1)
	ORDER BY id LIMIT 1000`

// Notify sends messages to all who listen to the store's schema, in this order:
// all or none. Each has feed.MaxMessage bytes at the most.
func (s *Store) Notify(ctx context.Context, messages []string) error {
	return s.feed.Notify(ctx, messages)
}

// Listen hears what is sent to the store's schema until ctx is done, over a
// connection beside the pool; see feed.Listen. It returns when the connection is
// closed.
func (s *Store) Listen(ctx context.Context, to feed.Listener) { s.feed.Listen(ctx, to) }

// Cancelled answers the streams that node, a node/incarnation, has live and that
// were asked to stop, in the order of their ids. It costs as much as there are of
// those, of all nodes.
func (s *Store) Cancelled(ctx context.Context, node string) (ids []string, err error) {
	for after := ""; ; after = ids[len(ids)-1] {
		found, err := s.pool.Query(ctx, s.sql(cancelledSQL), node+"/", after)
		if err != nil {
			return nil, pg.Failed(ctx, err, "find cancelled streams")
		}
		page, err := pgx.CollectRows(found, pgx.RowTo[string])
		if err != nil {
			return nil, pg.Failed(ctx, err, "find cancelled streams")
		}
		ids = append(ids, page...)
		if len(page) < 1000 {
			return ids, nil
		}
	}
}
