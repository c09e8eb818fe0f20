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
		return patiently(ctx, func() (plane.Row, error) { return s.sealStepwise(ctx, seal) })
	}
	if seal.From > 0 {
		row, err = s.fold(ctx, seal)
		if err == nil && row.Status.Ended() || err != nil && !locked(err) {
			return row, err
		}
	}
	if row, err = s.sealAtOnce(ctx, seal, s.stmt.seal, sealArgs(seal, seal.Text)); locked(err) {
		return patiently(ctx, func() (plane.Row, error) { return s.sealStepwise(ctx, seal) })
	}
	return row, err
}

// fold seals without sending again what the chunks hold. If they don't hold it,
// or the row is not ours, it changes nothing. On loopback a seal of 2 or 20 KB
// costs the same either way, and one of 200 KB the server up to half as much
// again; what it spares is the text's second trip over the network.
func (s *Store) fold(ctx context.Context, seal plane.Seal) (plane.Row, error) {
	tail := plane.Skip(seal.Text, seal.From)
	args := sealArgs(seal, seal.Text)
	args[2] = tail
	return s.sealAtOnce(ctx, seal, s.stmt.fold, append(args, seal.From, len(seal.Text)-len(tail)))
}

// sealAtOnce seals in one round trip: both statements travel together and are
// one transaction.
func (s *Store) sealAtOnce(ctx context.Context, seal plane.Seal, sql string, args []any) (row plane.Row, err error) {
	batch := new(pgx.Batch)
	batch.Queue(s.stmt.lock, seal.ID, seal.Token)
	batch.Queue(sql, args...)
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

// sealStepwise seals a text whose beginning only the database has, or whose row
// was locked: the text travels when this transaction has the row.
func (s *Store) sealStepwise(ctx context.Context, seal plane.Seal) (row plane.Row, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		err := rows.Scan(tx.QueryRow(ctx, s.stmt.lock, seal.ID, seal.Token), &row, nil)
		if errors.Is(err, plane.ErrNotFound) { // not ours
			return rows.Scan(tx.QueryRow(ctx, s.stmt.read, seal.ID), &row, nil)
		}
		if err != nil {
			return err
		}
		body := seal.Text
		if seal.Base > 0 {
			below, err := s.whole(ctx, tx, seal.ID, seal.Base)
			if err != nil {
				return err
			}
			body = below + seal.Text
		}
		return rows.Scan(tx.QueryRow(ctx, s.stmt.seal, sealArgs(seal, body)...), &row, new(bool))
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
