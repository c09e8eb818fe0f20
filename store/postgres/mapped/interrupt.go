package mapped

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/internal/pg"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// TakeName makes a node's name this store's alone, in the place where the leases
// are. See store.Named. Without a host column no row is the name's, and nothing is
// taken.
func (s *Store) TakeName(ctx context.Context, node string) error {
	take := func() error {
		if s.has.Host == "" {
			return nil
		}
		return s.name.Take(ctx, node, schema)
	}
	if err := s.calls.Do(take); err != nil {
		return pg.Failed(ctx, err, "take the name %q", node)
	}
	return nil
}

// Interrupt seals what earlier runs of a node left streaming. See store.Store.
// Without a host column nobody knows what they left, and nothing is sealed.
func (s *Store) Interrupt(ctx context.Context, node, incarnation string) (count int, err error) {
	all, but, err := rows.Orphans(node, incarnation)
	if err != nil {
		return 0, err
	}
	if err := s.TakeName(ctx, node); err != nil {
		return 0, fmt.Errorf("interrupt: %w", err)
	}
	if s.has.Host == "" {
		return 0, nil
	}
	// The name proves that the runs before are gone.
	if err := s.leases.Supersede(ctx, node, incarnation); err != nil {
		return 0, pg.Failed(ctx, err, "interrupt: end the leases of earlier runs")
	}
	var errs []error
	for after := ""; ; {
		orphans, err := s.orphans(ctx, after, all, but)
		if err != nil {
			return count, pg.Failed(ctx, err, "find rows to interrupt")
		}
		if len(orphans) == 0 {
			return count, errors.Join(errs...)
		}
		for _, o := range orphans {
			done, err := s.interrupt(ctx, o)
			if done {
				count++
			}
			if err != nil {
				errs = append(errs, pg.Failed(ctx, err, "interrupt %q", o.ID))
			}
		}
		after = orphans[len(orphans)-1].ID
	}
}

// orphan is a row that nobody owns any more.
type orphan struct{ ID, Token string }

func (s *Store) orphans(ctx context.Context, after, all, but string) ([]orphan, error) {
	found, err := s.pool.Query(ctx, s.stmt.orphans, after, all, but)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowToStructByPos[orphan])
}

// interrupt seals one row, in a transaction of its own.
func (s *Store) interrupt(ctx context.Context, o orphan) (done bool, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var row plane.Row
		err := rows.Scan(tx.QueryRow(ctx, s.stmt.lock, o.ID, o.Token, 0, int64(math.MaxInt64)), &row, nil)
		if errors.Is(err, plane.ErrNotFound) {
			return nil // it ended, or has another owner by now
		}
		if err != nil {
			return err
		}
		body, err := s.whole(ctx, tx, o.ID, row.Seq)
		_, hole := errors.AsType[*plane.HoleError](err)
		switch {
		case hole:
			_, err = tx.Exec(ctx, s.stmt.interrupt, o.ID, o.Token)
		case err == nil:
			seal := plane.Seal{ID: o.ID, Token: o.Token, Status: plane.StatusInterrupted, Seq: row.Seq}
			err = rows.Scan(tx.QueryRow(ctx, s.stmt.seal, s.sealArgs(seal, body)...), &row, &done)
		}
		done = err == nil
		return err
	})
	return done && err == nil, err
}
