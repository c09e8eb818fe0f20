package pg

import (
	"context"
	"errors"
	"math"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/feed"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// Interrupt seals as interrupted the rows that all and but pick, as rows.Orphans
// gives them, answers how many, and tells of it on the feed. See store.Store.
func (s *Sealer) Interrupt(ctx context.Context, all, but string) (count int, err error) {
	type orphan struct{ ID, Token string }
	var errs []error
	for after := ""; ; {
		found, err := s.Pool.Query(ctx, s.SQL.Orphans, after, all, but)
		if err != nil {
			return count, Failed(ctx, err, "find rows to interrupt")
		}
		orphans, err := pgx.CollectRows(found, pgx.RowToStructByPos[orphan])
		if err != nil {
			return count, Failed(ctx, err, "find rows to interrupt")
		}
		if len(orphans) == 0 {
			return count, errors.Join(errs...)
		}
		var ended []feed.Change
		for _, o := range orphans {
			row, done, err := s.interrupt(ctx, o.ID, o.Token)
			if done {
				ended = append(ended, feed.Change{ID: o.ID, Seq: row.Seq, Epoch: row.Epoch, Status: row.Status})
			}
			if err != nil {
				errs = append(errs, Failed(ctx, err, "interrupt %q", o.ID))
			}
		}
		count += len(ended)
		s.Feed.Tell(ctx, ended)
		after = orphans[len(orphans)-1].ID
	}
}

// interrupt seals one row, in a transaction of its own.
func (s *Sealer) interrupt(ctx context.Context, id, token string) (row plane.Row, done bool, err error) {
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		// Of any length: nobody goes on with it.
		lock := plane.Seal{ID: id, Token: token, Seq: math.MaxInt64}
		err := rows.Scan(tx.QueryRow(ctx, s.SQL.Lock, s.LockArgs(lock)...), &row, nil)
		if errors.Is(err, plane.ErrNotFound) {
			return nil // it ended, or has another owner by now
		}
		if err != nil {
			return err
		}
		text, end, hole, err := s.whole(ctx, tx, id, row.Seq)
		switch {
		case err != nil:
			return err
		case hole != nil:
			row, err = s.cut(ctx, tx, id, row, text, end, hole)
			done = err == nil
			return err
		}
		seal := plane.Seal{ID: id, Token: token, Status: plane.StatusInterrupted, Seq: row.Seq}
		return rows.Scan(tx.QueryRow(ctx, s.SQL.Seal, s.SealArgs(seal, text)...), &row, &done)
	})
	return row, done && err == nil, err
}
