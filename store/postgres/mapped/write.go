package mapped

import (
	"context"

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
	return s.sealer().Seal(ctx, seal)
}

func (s *Store) sealer() *pg.Sealer {
	return &pg.Sealer{
		Pool: s.pool, Feed: s.feed,
		SQL: pg.SealSQL{
			Lock: s.stmt.lock, Seal: s.stmt.seal, Fold: s.stmt.fold, Read: s.stmt.read,
			Chunks: s.stmt.chunks, Pieces: s.stmt.pieces, Cut: s.stmt.cut,
		},
		LockArgs: func(seal plane.Seal) []any { return []any{seal.ID, seal.Token, seal.From, seal.Seq} },
		SealArgs: func(seal plane.Seal, body string) []any { return s.sealArgs(seal, body) },
		FoldArgs: func(seal plane.Seal, tail string, held int64, _ func() []int64) []any {
			return s.sealArgs(seal, tail, held)
		},
		CutArgs: s.cutArgs,
	}
}

func (s *Store) cutArgs(seal plane.Seal, text string, end int64, why string) []any {
	args := []any{seal.ID, text, end}
	if s.has.Error != "" {
		args = append(args, why)
	}
	return args
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
