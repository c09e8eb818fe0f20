package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// endedSQL: ?1 before when the streams ended, ?2 how many. With the bytes of their
	// bodies, which a deletion goes through.
	endedSQL = `
		SELECT id, octet_length(body) FROM streams WHERE ended_at < ?1
		ORDER BY ended_at LIMIT ?2`

	// pastSQL: ?1 id, ?2 before when it ended. Its epoch is remembered first.
	pastSQL = `
		UPDATE epochs SET epoch = (SELECT max(epochs.epoch, s.epoch) FROM streams s WHERE s.id = ?1 AND s.ended_at < ?2)
		WHERE EXISTS (SELECT 1 FROM streams WHERE id = ?1 AND ended_at < ?2)`

	deleteSQL = `DELETE FROM streams WHERE id = ?1 AND ended_at < ?2`
)

// What bounds one transaction of a deletion, and one of rows that can't be deleted.
const (
	deleteRows   = 100
	deleteBytes  = 8 << 20 // unless one text is larger
	deleteSpoilt = 100
)

// DeleteEnded deletes streams that ended long ago. See store.Shared.
func (s *Store) DeleteEnded(ctx context.Context, age time.Duration) (count int, err error) {
	err = s.do(func() error {
		count, err = s.deleteEnded(ctx, now()-age.Microseconds())
		return err
	})
	return count, err
}

func (s *Store) deleteEnded(ctx context.Context, before int64) (int, error) {
	var (
		count  int
		spoilt = make(map[string]error) // not deleted, and passed over from then on
	)
	joined := func(err error) error {
		errs := make([]error, 0, len(spoilt)+1)
		for _, e := range spoilt {
			errs = append(errs, e)
		}
		return errors.Join(append(errs, err)...)
	}
	for len(spoilt) < deleteSpoilt {
		ids, err := s.ended(ctx, before, spoilt)
		if err != nil {
			return count, joined(fmt.Errorf("find ended streams: %w", err))
		}
		if len(ids) == 0 {
			break
		}
		n, err := s.drop(ctx, before, ids...)
		if count += n; err == nil {
			continue
		}
		for _, id := range ids { // one of them spoils it for all
			n, err := s.drop(ctx, before, id)
			count += n
			switch {
			case ctx.Err() != nil, busy(err):
				return count, joined(fmt.Errorf("delete ended streams: %w", err))
			case err != nil:
				spoilt[id] = fmt.Errorf("delete %q: %w", id, err)
			}
		}
	}
	return count, joined(nil)
}

// ended answers some of the streams that ended before a time, but those that are
// passed over.
func (s *Store) ended(ctx context.Context, before int64, but map[string]error) (ids []string, err error) {
	found, err := s.reads.QueryContext(ctx, endedSQL, before, deleteRows+len(but))
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for bytes := 0; found.Next(); {
		var id string
		var size int
		if err := found.Scan(&id, &size); err != nil {
			return nil, err
		}
		if but[id] != nil {
			continue
		}
		if bytes += size; len(ids) > 0 && bytes > deleteBytes {
			break
		}
		ids = append(ids, id)
	}
	return ids, found.Err()
}

// drop deletes streams in one write, and answers how many.
func (s *Store) drop(ctx context.Context, before int64, ids ...string) (int, error) {
	var count int
	err := s.writer.write(ctx, func(stmt statements) error {
		n := 0
		for _, id := range ids {
			done, err := stmt.deleteOne(id, before)
			if err != nil {
				return err
			}
			n += done
		}
		count = n
		return nil
	})
	if err != nil {
		return 0, err
	}
	return count, nil
}

func (s statements) deleteOne(id string, before int64) (int, error) {
	if _, err := s.exec(pastSQL, id, before); err != nil {
		return 0, err
	}
	n, err := s.exec(deleteSQL, id, before)
	if err == nil && n > 0 {
		_, err = s.drop.Exec(id)
	}
	return n, err
}
