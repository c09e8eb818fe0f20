package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/store/internal/pg"
)

const (
	// endedSQL: $1 how long ago the streams ended, $2 how many, $3 ids that are
	// passed over.
	endedSQL = `
		SELECT id FROM rillkeep.streams WHERE ended_at < now() - $1::interval AND id <> ALL ($3::text[])
		ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED`

	// deleteSQL: $1 how long ago the streams ended, $2 their ids.
	deleteSQL = `
		WITH old AS (
			SELECT id, epoch FROM rillkeep.streams
			WHERE id = ANY ($2::text[]) AND ended_at < now() - $1::interval FOR UPDATE SKIP LOCKED
		), e AS (
			INSERT INTO rillkeep.epochs AS known (epoch) SELECT max(epoch) FROM old HAVING count(*) > 0
			ON CONFLICT (one) DO UPDATE SET epoch = excluded.epoch WHERE known.epoch < excluded.epoch
		), c AS (
			DELETE FROM rillkeep.chunks WHERE stream_id = ANY (ARRAY(SELECT id FROM old))
		)
		DELETE FROM rillkeep.streams WHERE id = ANY (ARRAY(SELECT id FROM old))`
)

// What bounds one transaction of a deletion, and one of rows that can't be deleted.
const (
	deleteRows   = 100
	deleteSpoilt = 100
)

// DeleteEnded deletes streams that ended long ago. See store.Shared.
func (s *Store) DeleteEnded(ctx context.Context, age time.Duration) (int, error) {
	var (
		count  int
		errs   []error
		passed = []string{} // not deleted, and passed over from then on
	)
	for len(errs) < deleteSpoilt {
		ids, err := s.ended(ctx, age, passed)
		if err != nil {
			return count, errors.Join(append(errs, pg.Failed(ctx, err, "find ended streams"))...)
		}
		if len(ids) == 0 {
			break
		}
		n, err := s.deleteEnded(ctx, age, ids)
		count += n
		switch {
		case err == nil && n == 0: // others have them
			passed = append(passed, ids...)
		case err != nil && !pg.OneRows(err):
			return count, errors.Join(append(errs, pg.Failed(ctx, err, "delete ended streams"))...)
		case err != nil: // one of them spoils it for all
			n, spoilt, refused := s.deleteEach(ctx, age, ids)
			count += n
			passed, errs = append(passed, spoilt...), append(errs, refused...)
		}
	}
	return count, errors.Join(errs...)
}

func (s *Store) ended(ctx context.Context, age time.Duration, but []string) ([]string, error) {
	found, err := s.pool.Query(ctx, s.sql(endedSQL), age, deleteRows, but)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowTo[string])
}

func (s *Store) deleteEnded(ctx context.Context, age time.Duration, ids []string) (int, error) {
	done, err := s.pool.Exec(ctx, s.sql(deleteSQL), age, ids)
	return int(done.RowsAffected()), err
}

// deleteEach deletes streams one by one, and answers how many, those that are
// left and why. One that is locked is left without an error.
func (s *Store) deleteEach(ctx context.Context, age time.Duration, ids []string) (count int, left []string, errs []error) {
	for _, id := range ids {
		n, err := s.deleteEnded(ctx, age, []string{id})
		if count += n; n > 0 {
			continue
		}
		left = append(left, id)
		if err != nil && !pg.Locked(err) {
			errs = append(errs, pg.Failed(ctx, err, "delete %q", id))
		}
		if err != nil && !pg.OneRows(err) {
			break
		}
	}
	return count, left, errs
}
