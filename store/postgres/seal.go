package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// Seal writes the end of a stream. See plane.Store.
func (s *Store) Seal(ctx context.Context, seal plane.Seal) (plane.Row, error) {
	row, err := s.sealed(ctx, seal)
	if err != nil {
		return plane.Row{}, failed(ctx, err, "seal %q", seal.ID)
	}
	return row, nil
}

func (s *Store) sealed(ctx context.Context, seal plane.Seal) (row plane.Row, err error) {
	if err := rows.CheckLength(seal.Base, seal.Seq, seal.Text); err != nil {
		return row, err
	}
	if seal.Base > 0 {
		return s.sealOnto(ctx, seal)
	}
	// Both statements travel together and are one transaction.
	batch := new(pgx.Batch)
	batch.Queue(s.stmt.lock, seal.ID, seal.Token)
	batch.Queue(s.stmt.seal, sealArgs(seal, seal.Text)...)
	results := s.pool.SendBatch(ctx, batch)
	defer func() {
		if closed := results.Close(); err == nil {
			err = closed
		}
	}()
	if _, err := results.Exec(); err != nil {
		return row, err
	}
	err = rows.Scan(results.QueryRow(), &row, new(bool))
	return row, err
}

// sealOnto seals a text whose beginning only the database has.
func (s *Store) sealOnto(ctx context.Context, seal plane.Seal) (row plane.Row, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		err := rows.Scan(tx.QueryRow(ctx, s.stmt.lock, seal.ID, seal.Token), &row, nil)
		if errors.Is(err, plane.ErrNotFound) { // not ours
			return rows.Scan(tx.QueryRow(ctx, s.stmt.read, seal.ID), &row, nil)
		}
		if err != nil {
			return err
		}
		below, err := s.whole(ctx, tx, seal.ID, seal.Base)
		if err != nil {
			return err
		}
		return rows.Scan(tx.QueryRow(ctx, s.stmt.seal, sealArgs(seal, below+seal.Text)...), &row, new(bool))
	})
	return row, err
}

func sealArgs(seal plane.Seal, body string) []any {
	var message *string
	if seal.HasError {
		message = new(store.Sound(seal.Error))
	}
	return []any{seal.ID, seal.Token, body, rows.Marks(body), seal.Seq, seal.Status, message}
}

// Interrupt seals what earlier runs of a node left streaming. See store.Store.
func (s *Store) Interrupt(ctx context.Context, node, incarnation string) (int, error) {
	all, but, err := rows.Orphans(node, incarnation)
	if err != nil {
		return 0, err
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

// interrupt seals one row, in a transaction of its own: a row that somebody
// holds keeps no other waiting for long.
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
