package postgres

import (
	"context"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/pg"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// Seal writes the end of a stream. See plane.Store.
func (s *Store) Seal(ctx context.Context, seal plane.Seal) (plane.Row, error) {
	row, err := s.sealed(ctx, seal)
	if err != nil {
		return plane.Row{}, pg.Failed(ctx, err, "seal %q", seal.ID)
	}
	return row, nil
}

func (s *Store) sealed(ctx context.Context, seal plane.Seal) (plane.Row, error) {
	if err := rows.CheckLength(seal.Base, seal.Seq, seal.Text); err != nil {
		return plane.Row{}, err
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
		LockArgs: func(seal plane.Seal) []any { return []any{seal.ID, seal.Token, seal.Seq} },
		SealArgs: func(seal plane.Seal, body string) []any { return sealArgs(seal, body, rows.Marks(body)) },
		FoldArgs: func(seal plane.Seal, tail string, held int64, marks func() []int64) []any {
			return append(sealArgs(seal, tail, marks()), seal.From, held)
		},
		CutArgs: cutArgs,
	}
}

func cutArgs(seal plane.Seal, text string, end int64, why string) []any {
	return []any{seal.ID, text, rows.Marks(text), end, why, rows.Meta(seal.Meta)}
}

func sealArgs(seal plane.Seal, text string, marks []int64) []any {
	var message *string
	if seal.HasError {
		message = new(store.Sound(seal.Error))
	}
	return []any{seal.ID, seal.Token, text, marks, seal.Seq, seal.Status, message, rows.Meta(seal.Meta)}
}
