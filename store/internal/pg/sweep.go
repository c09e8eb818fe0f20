package pg

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/feed"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// SweepSQL are the statements that seal a store's orphans.
type SweepSQL struct {
	// Orphans locks rows to be sealed, but those that others have locked, and
	// answers id and length: $1 grace, $2 how many, $3 ids that are passed over; none
	// unless SteadySQL, with its $4 and $5, is so.
	Orphans string

	// Texts answers all of the texts of rows, id, body, and their chunks' ends and
	// texts: $1 ids.
	Texts string

	// Seal seals a row that the transaction holds, with what Args says.
	Seal string

	// Cut is SealSQL's.
	Cut string
}

// Sweeper seals a store's orphans.
type Sweeper struct {
	Pool   *pgxpool.Pool
	Leases *Leases
	Feed   Feed
	SQL    SweepSQL

	Args    func(id, text string) []any // of SQL.Seal
	CutArgs func(seal plane.Seal, text string, end int64, why string) []any
}

// What bounds one transaction of a sweep, and a sweep of rows that can't be sealed.
const (
	sweepRows   = 16
	sweepUnits  = 1 << 20 // unless one text is larger
	sweepSpoilt = 100
)

// Sweep seals orphans, and forgets leases that have been over for long. See
// store.Shared.
func (s *Sweeper) Sweep(ctx context.Context, node store.Node, grace time.Duration) (int, error) {
	var (
		count  int
		errs   []error
		spoilt = []string{} // not sealed, and passed over from then on
	)
	for limit := sweepRows; ; {
		ended, err := s.sweep(ctx, node, grace, limit, spoilt)
		switch {
		case err == nil && len(ended) == 0:
			if err := s.Leases.Prune(ctx, grace); err != nil {
				errs = append(errs, err)
			}
			return count, errors.Join(errs...)
		case err == nil:
			count += len(ended)
			s.Feed.Tell(ctx, ended)
		case len(ended) == 0 || ctx.Err() != nil:
			return count, errors.Join(append(errs, Failed(ctx, err, "sweep"))...)
		case len(ended) > 1: // one of them spoils it for all
			limit = 1
		default:
			errs = append(errs, Failed(ctx, err, "sweep %q", ended[0].ID))
			if spoilt = append(spoilt, ended[0].ID); len(spoilt) == sweepSpoilt {
				return count, errors.Join(errs...)
			}
			limit = sweepRows
		}
	}
}

// sweep seals a batch of orphans in one transaction, and answers their ends; of one
// that failed those of the rows that it tried to seal.
func (s *Sweeper) sweep(ctx context.Context, node store.Node, grace time.Duration, limit int, but []string) (ended []feed.Change, err error) {
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		seqs, err := s.lockOrphans(ctx, tx, node, grace, limit, but)
		if err != nil || len(seqs) == 0 {
			return err
		}
		var ids []string
		for id, seq := range seqs {
			ids = append(ids, id)
			ended = append(ended, feed.Change{ID: id, Seq: seq, Status: plane.StatusInterrupted})
		}
		fold, err := s.folded(ctx, tx, ids, seqs)
		if err != nil {
			return err
		}
		return written(tx.SendBatch(ctx, fold), fold.Len())
	})
	return ended, err
}

// errUndone says that a row stayed as it was, though it was ours to write.
var errUndone = errors.New("a trigger undid the write")

// written reads the results of n writes, each of one row.
func written(results pgx.BatchResults, n int) (err error) {
	for range n {
		done, failed := results.Exec()
		if failed == nil && done.RowsAffected() == 0 {
			failed = errUndone
		}
		if err = failed; err != nil {
			break
		}
	}
	if closed := results.Close(); err == nil {
		err = closed
	}
	return err
}

// lockOrphans answers the lengths of the orphans that are to be sealed together.
func (s *Sweeper) lockOrphans(ctx context.Context, tx pgx.Tx, node store.Node, grace time.Duration, limit int, but []string) (map[string]int64, error) {
	found, err := tx.Query(ctx, s.SQL.Orphans, grace, limit, but, node.Name, node.Incarnation)
	if err != nil {
		return nil, err
	}
	var (
		seqs  = make(map[string]int64, limit)
		units int64
		id    string
		seq   int64
	)
	_, err = pgx.ForEachRow(found, []any{&id, &seq}, func() error {
		if units += seq; units <= sweepUnits || len(seqs) == 0 {
			seqs[id] = seq
		}
		return nil
	})
	return seqs, err
}

// folded answers the writes that seal orphans, which tx holds.
func (s *Sweeper) folded(ctx context.Context, tx pgx.Tx, ids []string, seqs map[string]int64) (*pgx.Batch, error) {
	found, err := tx.Query(ctx, s.SQL.Texts, ids)
	if err != nil {
		return nil, err
	}
	var (
		writes   = new(pgx.Batch)
		id, body string
		ends     []int64
		texts    []string
	)
	_, err = pgx.ForEachRow(found, []any{&id, &body, &ends, &texts}, func() error {
		text, end, hole := rows.Whole(rows.Pieces(0, body, ends, texts), seqs[id])
		if hole != nil {
			writes.Queue(s.SQL.Cut, s.CutArgs(plane.Seal{ID: id}, text, end, rows.Missing(hole, seqs[id]))...)
			return nil
		}
		writes.Queue(s.SQL.Seal, s.Args(id, text)...)
		return nil
	})
	return writes, err
}
