package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"rillkeep.dev/rillkeep/plane"
)

const (
	// interruptedSQL: ?1 id, ?2 body, ?3 marks, ?4 now. Of a row that was looked at in
	// the same transaction.
	interruptedSQL = `
		UPDATE streams SET body = ?2, marks = ?3, status = 'interrupted', updated_at = ?4, ended_at = ?4 WHERE id = ?1`

	// cutSQL ends a row where its text has a hole, in the same way: ?1 id, ?2 body,
	// ?3 marks, ?4 seq, ?5 error, ?6 now, ?7 meta.
	cutSQL = `
		UPDATE streams SET body = ?2, marks = ?3, seq = ?4, status = 'interrupted', error = ?5, updated_at = ?6, ended_at = ?6,
			meta = coalesce(?7, meta)
		WHERE id = ?1`

	// cutOffSQL: ?1 id, ?2 where its text has a hole. What lies beyond is left as it is.
	cutOffSQL = `DELETE FROM chunks WHERE stream_id = ?1 AND seq <= ?2`
)

// What bounds the sealing of many rows.
const (
	sealsAtOnce = 16  // that may share a transaction
	sealsSpoilt = 100 // rows that can't be sealed
)

// orphan is a row that is to be sealed for its owner.
type orphan struct{ id, token string }

func scanOrphan(from *sql.Rows) (o orphan, err error) {
	err = from.Scan(&o.id, &o.token)
	return o, err
}

// sealEach seals rows, each as a write of its own, and answers how many it did; the
// others make the error.
func (s *Store) sealEach(ctx context.Context, verb string, all []orphan, seal func(statements, orphan) (bool, error)) (int, error) {
	var (
		mu     sync.Mutex // guards below
		count  int
		failed []error
		group  errgroup.Group
	)
	enough := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(failed) >= sealsSpoilt || len(failed) > 0 && ctx.Err() != nil
	}
	group.SetLimit(sealsAtOnce)
	for _, o := range all {
		if enough() {
			break
		}
		group.Go(func() error {
			var done bool
			err := s.writer.write(ctx, func(stmt statements) (err error) {
				done, err = seal(stmt, o)
				return err
			})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				failed = append(failed, fmt.Errorf("%s %q: %w", verb, o.id, err))
			case done:
				count++
			}
			return nil
		})
	}
	_ = group.Wait() // none answers an error
	return count, errors.Join(failed...)
}

// interruptOne seals a row that is still its owner's.
func (s statements) interruptOne(o orphan) (done bool, err error) {
	row, err := s.row(o.id)
	if err != nil || row.Token != o.token || row.Status != plane.StatusStreaming {
		return false, err // it ended, or has another owner by now
	}
	body, err := s.whole(o.id, row.Seq)
	if hole, ok := errors.AsType[*plane.HoleError](err); ok {
		return true, s.cut(plane.Seal{ID: o.id}, row, hole)
	}
	if err != nil {
		return false, err
	}
	marks, err := encodeMarks(body)
	if err != nil {
		return false, err
	}
	if _, err = s.exec(interruptedSQL, o.id, body, marks, now()); err == nil {
		_, err = s.drop.Exec(o.id)
	}
	return true, err
}
