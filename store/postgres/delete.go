package postgres

import (
	"context"
	"time"
)

// deleteSQL: $1 how long ago the streams ended.
const deleteSQL = `
	WITH old AS (
		SELECT id FROM rillkeep.streams WHERE ended_at < now() - $1::interval
		ORDER BY ended_at LIMIT 100 FOR UPDATE SKIP LOCKED
	), c AS (
		DELETE FROM rillkeep.chunks WHERE stream_id = ANY (ARRAY(SELECT id FROM old))
	)
	DELETE FROM rillkeep.streams WHERE id = ANY (ARRAY(SELECT id FROM old))`

// DeleteEnded deletes streams that ended long ago. See store.Shared.
func (s *Store) DeleteEnded(ctx context.Context, age time.Duration) (int, error) {
	done, err := s.pool.Exec(ctx, s.sql(deleteSQL), age)
	if err != nil {
		return 0, failed(ctx, err, "delete ended streams")
	}
	return int(done.RowsAffected()), nil
}
