package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// TakeName makes a node's name this store's alone. See store.Named.
func (s *Store) TakeName(ctx context.Context, node string) error {
	if err := s.calls.Do(func() error { return s.name.Take(ctx, node, s.schema) }); err != nil {
		return failed(ctx, err, "take the name %q", node)
	}
	return nil
}

// Interrupt seals what earlier runs of a node left streaming. See store.Store.
func (s *Store) Interrupt(ctx context.Context, node, incarnation string) (int, error) {
	all, but, err := rows.Orphans(node, incarnation)
	if err != nil {
		return 0, err
	}
	if err := s.TakeName(ctx, node); err != nil {
		return 0, fmt.Errorf("interrupt: %w", err)
	}
	// The name proves that the runs before are gone.
	if err := s.leases.Supersede(ctx, node, incarnation); err != nil {
		return 0, failed(ctx, err, "interrupt: end the leases of earlier runs")
	}
	type orphan struct{ ID, Token string }
	var (
		count int
		errs  []error
		after string
	)
	for {
		found, err := s.pool.Query(ctx, s.stmt.orphans, after, all, but)
		if err != nil {
			return count, failed(ctx, err, "find rows to interrupt")
		}
		orphans, err := pgx.CollectRows(found, pgx.RowToStructByPos[orphan])
		if err != nil {
			return count, failed(ctx, err, "find rows to interrupt")
		}
		if len(orphans) == 0 {
			return count, errors.Join(errs...)
		}
		for _, o := range orphans {
			done, err := s.interrupt(ctx, o.ID, o.Token)
			if done {
				count++
			}
			if err != nil {
				errs = append(errs, failed(ctx, err, "interrupt %q", o.ID))
			}
		}
		after = orphans[len(orphans)-1].ID
	}
}

// interrupt seals one row, in a transaction of its own.
func (s *Store) interrupt(ctx context.Context, id, token string) (done bool, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var row plane.Row
		err := rows.Scan(tx.QueryRow(ctx, s.stmt.lock, id, token), &row, nil)
		if errors.Is(err, plane.ErrNotFound) {
			return nil // it ended, or has another owner by now
		}
		if err != nil {
			return err
		}
		body, err := s.whole(ctx, tx, id, row.Seq)
		_, hole := errors.AsType[*plane.HoleError](err)
		switch {
		case hole:
			_, err = tx.Exec(ctx, s.stmt.interrupt, id, token)
		case err == nil:
			seal := plane.Seal{ID: id, Token: token, Status: plane.StatusInterrupted, Seq: row.Seq}
			err = rows.Scan(tx.QueryRow(ctx, s.stmt.seal, sealArgs(seal, body)...), &row, &done)
		}
		done = err == nil
		return err
	})
	return done && err == nil, err
}
