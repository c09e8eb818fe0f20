package pg

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// SealSQL are the statements that seal a store's streams.
type SealSQL struct {
	// Lock locks a row that is to be sealed, unless others have locked it, and
	// answers rows.Columns; nothing if it is not the writer's. What follows it sees
	// the chunks of an append that was committed until then.
	Lock string

	// Seal and Fold end a stream and answer whether they did, and rows.Columns: Seal
	// with the whole text, Fold with what the chunks lack.
	Seal, Fold string

	// Read answers rows.Columns: $1 id.
	Read string

	// Chunks answers the ends and texts of a stream's chunks, in their order: $1 id.
	Chunks string

	// Pieces answers body, and the chunks' ends and texts: $1 id.
	Pieces string

	// Cut ends a stream, whose row the transaction holds, where its text has a hole:
	// interrupted, with CutArgs's text and error; chunks from beyond stay. It
	// answers rows.Columns.
	Cut string
}

// Sealer seals a store's streams.
type Sealer struct {
	Pool *pgxpool.Pool
	Feed Feed
	SQL  SealSQL

	LockArgs func(plane.Seal) []any
	SealArgs func(seal plane.Seal, body string) []any

	// FoldArgs are for a text of which the chunks hold the first held bytes, and tail
	// is the rest; marks answers its Marks.
	FoldArgs func(seal plane.Seal, tail string, held int64, marks func() []int64) []any

	CutArgs func(seal plane.Seal, text string, end int64, why string) []any
}

// Seal writes the end of a stream, whose text spans its offsets. See plane.Store.
func (s *Sealer) Seal(ctx context.Context, seal plane.Seal) (row plane.Row, err error) {
	if seal.Base == 0 && seal.From > 0 {
		row, err = s.fold(ctx, seal)
		if err == nil && row.Status.Ended() || err != nil && !Locked(err) {
			return row, err
		}
	}
	if seal.Base == 0 {
		if row, err = s.atOnce(ctx, seal, s.SQL.Seal, s.SealArgs(seal, seal.Text)); !Locked(err) {
			return row, err
		}
	}
	return Patiently(ctx, func() (plane.Row, error) { return s.stepwise(ctx, seal) })
}

// fold seals without sending again what the chunks hold. If they don't hold it,
// or the row is not ours, it changes nothing. It tells by the row's length and by
// the bytes of the chunks: what is left of other hands' work has others. On
// loopback a seal of 2 or 20 KB costs the same either way, and one of 200 KB the
// server up to half as much again; what it spares is the text's second trip over
// the network.
func (s *Sealer) fold(ctx context.Context, seal plane.Seal) (plane.Row, error) {
	tail := plane.Skip(seal.Text, seal.From)
	marks := func() []int64 { return rows.Marks(seal.Text) }
	return s.atOnce(ctx, seal, s.SQL.Fold, s.FoldArgs(seal, tail, int64(len(seal.Text)-len(tail)), marks))
}

// atOnce seals in one round trip: both statements travel together and are one
// transaction.
func (s *Sealer) atOnce(ctx context.Context, seal plane.Seal, sql string, args []any) (row plane.Row, err error) {
	batch := new(pgx.Batch)
	batch.Queue(s.SQL.Lock, s.LockArgs(seal)...)
	batch.Queue(sql, args...)
	results := s.Pool.SendBatch(ctx, batch)
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

// stepwise seals a text whose beginning only the database has, or whose row was
// locked, in one transaction: the text travels when it has the row.
func (s *Sealer) stepwise(ctx context.Context, seal plane.Seal) (row plane.Row, err error) {
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		err := rows.Scan(tx.QueryRow(ctx, s.SQL.Lock, s.LockArgs(seal)...), &row, nil)
		switch {
		case errors.Is(err, plane.ErrNotFound): // not ours
			return rows.Scan(tx.QueryRow(ctx, s.SQL.Read, seal.ID), &row, nil)
		case err != nil:
			return err
		case seal.Base == 0:
			return rows.Scan(tx.QueryRow(ctx, s.SQL.Seal, s.SealArgs(seal, seal.Text)...), &row, new(bool))
		}
		row, err = s.extend(ctx, tx, seal, row)
		return err
	})
	return row, err
}

// extend seals a text of which seal has the end, in a transaction that holds its
// row. However long it is, one chunk at a time passes through here: the database
// puts it together. Only if the chunks are not what they should be it comes as a
// whole.
func (s *Sealer) extend(ctx context.Context, tx pgx.Tx, seal plane.Seal, row plane.Row) (plane.Row, error) {
	held, sound, err := s.measure(ctx, tx, seal.ID)
	if err != nil {
		return row, err
	}
	if sound && held.Units == row.Seq && row.Seq >= seal.Base && row.Seq <= seal.Seq {
		seal.From = row.Seq
		tail := plane.Skip(seal.Text, row.Seq-seal.Base)
		before := held.Bytes
		marks := func() []int64 { held.Add(tail); return held.Marks() }
		var done bool
		err := rows.Scan(tx.QueryRow(ctx, s.SQL.Fold, s.FoldArgs(seal, tail, before, marks)...), &row, &done)
		if done || err != nil {
			return row, err
		}
	}
	below, end, hole, err := s.whole(ctx, tx, seal.ID, seal.Base)
	switch {
	case err != nil:
		return row, err
	case hole != nil:
		return s.cut(ctx, tx, seal, row, below, end, hole)
	}
	err = rows.Scan(tx.QueryRow(ctx, s.SQL.Seal, s.SealArgs(seal, below+seal.Text)...), &row, new(bool))
	return row, err
}

// measure answers what the chunks hold. sound says that each begins where the one
// before ends.
func (s *Sealer) measure(ctx context.Context, tx pgx.Tx, id string) (held *rows.Measure, sound bool, err error) {
	found, err := tx.Query(ctx, s.SQL.Chunks, id)
	if err != nil {
		return nil, false, err
	}
	held, sound = new(rows.Measure), true
	var end int64
	var text string
	_, err = pgx.ForEachRow(found, []any{&end, &text}, func() error {
		if sound {
			held.Add(text)
			sound = held.Units == end
		}
		return nil
	})
	return held, sound, err
}

// cut ends a stream, whose row tx holds, where its text has a hole.
func (s *Sealer) cut(ctx context.Context, tx pgx.Tx, seal plane.Seal, row plane.Row, text string, end int64, hole *plane.HoleError) (plane.Row, error) {
	args := s.CutArgs(seal, text, end, rows.Missing(hole, row.Seq))
	err := rows.Scan(tx.QueryRow(ctx, s.SQL.Cut, args...), &row, nil)
	return row, err
}

// whole answers a text from 0 to to, or to its first hole, in a transaction that
// holds its row.
func (s *Sealer) whole(ctx context.Context, tx pgx.Tx, id string, to int64) (text string, end int64, hole *plane.HoleError, err error) {
	var (
		body  string
		ends  []int64
		texts []string
	)
	err = tx.QueryRow(ctx, s.SQL.Pieces, id).Scan(&body, &ends, &texts)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", 0, nil, plane.ErrNotFound
	}
	if err != nil {
		return "", 0, nil, err
	}
	text, end, hole = rows.Whole(rows.Pieces(0, body, ends, texts), to)
	return text, end, hole, nil
}
