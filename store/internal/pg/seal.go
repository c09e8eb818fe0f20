package pg

import (
	"context"
	"errors"
	"math"

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

	// Pieces answers body, and the chunks' ends and texts: $1 id.
	Pieces string

	// Interrupt ends a stream whose text has a hole and leaves its pieces: $1 id,
	// $2 token.
	Interrupt string

	// Orphans answers a page of ids and tokens: $1 ids after, $2 and $3 as
	// rows.Orphans gives them.
	Orphans string
}

// Sealer seals a store's streams.
type Sealer struct {
	Pool *pgxpool.Pool
	SQL  SealSQL

	LockArgs func(plane.Seal) []any
	SealArgs func(seal plane.Seal, body string) []any
	FoldArgs func(seal plane.Seal, tail string, held int) []any // held is what comes before tail, in bytes
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
	return s.atOnce(ctx, seal, s.SQL.Fold, s.FoldArgs(seal, tail, len(seal.Text)-len(tail)))
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
// locked: the text travels when this transaction has the row.
func (s *Sealer) stepwise(ctx context.Context, seal plane.Seal) (row plane.Row, err error) {
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		err := rows.Scan(tx.QueryRow(ctx, s.SQL.Lock, s.LockArgs(seal)...), &row, nil)
		if errors.Is(err, plane.ErrNotFound) { // not ours
			return rows.Scan(tx.QueryRow(ctx, s.SQL.Read, seal.ID), &row, nil)
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
		return rows.Scan(tx.QueryRow(ctx, s.SQL.Seal, s.SealArgs(seal, body)...), &row, new(bool))
	})
	return row, err
}

// Interrupt seals as interrupted the rows that all and but pick, as rows.Orphans
// gives them, and answers how many. See store.Store.
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
		for _, o := range orphans {
			done, err := s.interrupt(ctx, o.ID, o.Token)
			if done {
				count++
			}
			if err != nil {
				errs = append(errs, Failed(ctx, err, "interrupt %q", o.ID))
			}
		}
		after = orphans[len(orphans)-1].ID
	}
}

// interrupt seals one row, in a transaction of its own.
func (s *Sealer) interrupt(ctx context.Context, id, token string) (done bool, err error) {
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		var row plane.Row
		// Of any length: nobody goes on with it.
		lock := plane.Seal{ID: id, Token: token, Seq: math.MaxInt64}
		err := rows.Scan(tx.QueryRow(ctx, s.SQL.Lock, s.LockArgs(lock)...), &row, nil)
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
			_, err = tx.Exec(ctx, s.SQL.Interrupt, id, token)
		case err == nil:
			seal := plane.Seal{ID: id, Token: token, Status: plane.StatusInterrupted, Seq: row.Seq}
			err = rows.Scan(tx.QueryRow(ctx, s.SQL.Seal, s.SealArgs(seal, body)...), &row, &done)
		}
		done = err == nil
		return err
	})
	return done && err == nil, err
}

// whole answers a text from 0 to to, in a transaction that holds its row.
func (s *Sealer) whole(ctx context.Context, tx pgx.Tx, id string, to int64) (string, error) {
	var (
		body  string
		ends  []int64
		texts []string
	)
	err := tx.QueryRow(ctx, s.SQL.Pieces, id).Scan(&body, &ends, &texts)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", plane.ErrNotFound
	}
	if err != nil {
		return "", err
	}
	text, _, err := rows.Stretch(rows.Pieces(0, body, ends, texts), 0, to)
	return text, err
}
