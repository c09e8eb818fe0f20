package mapped

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/pg"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// Append adds a slice as a chunk row, together with those of other streams. See
// plane.Store. store.ErrBusy at once if the row is locked: the stream has a rhythm
// of its own for repeats.
func (s *Store) Append(ctx context.Context, slice plane.Slice) (plane.Row, error) {
	var row plane.Row
	err := s.calls.Do(func() (err error) {
		row, err = s.append(ctx, slice)
		return err
	})
	if err != nil {
		return plane.Row{}, pg.Failed(ctx, err, "append to %q", slice.ID)
	}
	return row, nil
}

func (s *Store) append(ctx context.Context, slice plane.Slice) (plane.Row, error) {
	if err := rows.CheckLength(slice.From, slice.Seq, slice.Text); err != nil {
		return plane.Row{}, err
	}
	if slice.Text == "" {
		return s.Read(ctx, slice.ID)
	}
	if !s.known(slice.ID) { // it would fail the statement for all
		return plane.Row{}, plane.ErrNotFound
	}
	return s.appends.Append(ctx, slice)
}

// appender appends to the tables, for a group. Rows that an application locks are
// nothing unusual: no batch ever waits for one.
func (s *Store) appender() *pg.Appender {
	return &pg.Appender{
		Pool:      s.pool,
		SQL:       pg.AppendSQL{One: s.stmt.append, Free: s.stmt.appendAll, Rows: s.stmt.readAll},
		Tokenless: s.has.Host == "",
	}
}

// Cancel sets the cancel flag. See store.Store.
func (s *Store) Cancel(ctx context.Context, id string) (plane.Row, error) {
	if s.has.Cancel == "" {
		return plane.Row{}, pg.Failed(ctx, store.ErrNoCancel, "cancel %q", id)
	}
	row, err := pg.Patiently(ctx, func() (plane.Row, error) { return s.row(ctx, s.stmt.cancel, id) })
	if err != nil {
		return plane.Row{}, pg.Failed(ctx, err, "cancel %q", id)
	}
	return row, nil
}

// Seal folds a stream's chunks into its body and ends it. See plane.Store.
func (s *Store) Seal(ctx context.Context, seal plane.Seal) (plane.Row, error) {
	row, err := s.sealed(ctx, seal)
	if err != nil {
		return plane.Row{}, pg.Failed(ctx, err, "seal %q", seal.ID)
	}
	s.settle(seal.ID)
	return row, nil
}

func (s *Store) sealed(ctx context.Context, seal plane.Seal) (row plane.Row, err error) {
	if err := rows.CheckLength(seal.Base, seal.Seq, seal.Text); err != nil {
		return row, err
	}
	if !s.known(seal.ID) {
		return row, plane.ErrNotFound
	}
	if seal.Base == 0 && seal.From > 0 {
		row, err = s.fold(ctx, seal)
		if err == nil && row.Status.Ended() || err != nil && !pg.Locked(err) {
			return row, err
		}
	}
	if seal.Base == 0 {
		if row, err = s.sealAtOnce(ctx, seal, s.stmt.seal, s.sealArgs(seal, seal.Text)); !pg.Locked(err) {
			return row, err
		}
	}
	return pg.Patiently(ctx, func() (plane.Row, error) { return s.sealStepwise(ctx, seal) })
}

// fold seals without sending again what the chunks hold. If they don't hold it,
// or the row is not ours, it changes nothing. It tells by the row's length and by
// the bytes of the chunks: what is left of other hands' work has others.
func (s *Store) fold(ctx context.Context, seal plane.Seal) (plane.Row, error) {
	tail := plane.Skip(seal.Text, seal.From)
	return s.sealAtOnce(ctx, seal, s.stmt.fold, s.sealArgs(seal, tail, len(seal.Text)-len(tail)))
}

// sealAtOnce seals in one round trip: both statements travel together and are
// one transaction.
func (s *Store) sealAtOnce(ctx context.Context, seal plane.Seal, sql string, args []any) (row plane.Row, err error) {
	batch := new(pgx.Batch)
	batch.Queue(s.stmt.lock, seal.ID, seal.Token, seal.From, seal.Seq)
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
		err := rows.Scan(tx.QueryRow(ctx, s.stmt.lock, seal.ID, seal.Token, seal.From, seal.Seq), &row, nil)
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
		return rows.Scan(tx.QueryRow(ctx, s.stmt.seal, s.sealArgs(seal, body)...), &row, new(bool))
	})
	return row, err
}

// sealArgs are those of a seal; more come before the error.
func (s *Store) sealArgs(seal plane.Seal, body string, more ...any) []any {
	args := append([]any{seal.ID, seal.Token, seal.From, seal.Seq, body, seal.Status}, more...)
	if s.has.Error == "" {
		return args
	}
	var message *string
	if seal.HasError {
		message = new(store.Sound(seal.Error))
	}
	return append(args, message)
}
