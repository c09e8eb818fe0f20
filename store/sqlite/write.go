package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// change runs do as a write and answers the row that it leaves.
func (s *Store) change(ctx context.Context, verb, id string, do func(statements) (plane.Row, error)) (plane.Row, error) {
	var row plane.Row
	err := s.do(func() error {
		return s.writer.write(ctx, func(stmt statements) (err error) {
			row, err = do(stmt)
			return err
		})
	})
	if err != nil {
		return plane.Row{}, fmt.Errorf("%s %q: %w", verb, id, err)
	}
	return row, nil
}

// Open claims a stream, creating its row if there is none. See plane.Store.
func (s *Store) Open(ctx context.Context, claim plane.Claim) (plane.Row, error) {
	return s.change(ctx, "open", claim.ID, func(stmt statements) (plane.Row, error) { return stmt.claimFor(claim) })
}

func (s statements) claimFor(claim plane.Claim) (plane.Row, error) {
	now, producer, meta := now(), store.Sound(claim.Producer), rows.Meta(claim.Meta)
	var deleted int64 // the id may be one of those streams
	if err := s.deleted.QueryRow().Scan(&deleted); err != nil {
		return plane.Row{}, err
	}
	var found rows.Found
	err := rows.Scan(s.found.QueryRow(claim.ID), &found.Row, nil, &found.Producer, &found.HasText)
	if errors.Is(err, plane.ErrNotFound) {
		var left bool
		if err := s.left.QueryRow(claim.ID).Scan(&left); err != nil {
			return plane.Row{}, err
		}
		if left {
			return plane.Row{}, fmt.Errorf("%w: chunk rows are left of it", plane.ErrExists)
		}
		epoch := deleted + 1
		if _, err := s.create.Exec(claim.ID, plane.MakeToken(claim.Node, epoch, nil), epoch, producer, meta, now); err != nil {
			return plane.Row{}, err
		}
		return s.rowWithProducer(claim.ID)
	}
	if err != nil {
		return plane.Row{}, err
	}
	own, err := rows.Judge(claim.Node, found)
	if own || err != nil {
		return found.Row, err
	}
	epoch := max(found.Epoch, deleted) + 1
	if _, err := s.claim.Exec(claim.ID, plane.MakeToken(claim.Node, epoch, nil), epoch, producer, meta, now); err != nil {
		return plane.Row{}, err
	}
	return s.rowWithProducer(claim.ID)
}

// Append adds a slice as a chunk row. See plane.Store.
func (s *Store) Append(ctx context.Context, slice plane.Slice) (plane.Row, error) {
	if err := rows.CheckLength(slice.From, slice.Seq, slice.Text); err != nil {
		return plane.Row{}, fmt.Errorf("append to %q: %w", slice.ID, err)
	}
	return s.change(ctx, "append to", slice.ID, func(stmt statements) (plane.Row, error) {
		if slice.Text == "" {
			return stmt.row(slice.ID)
		}
		added, err := applied(stmt.advance.Exec(slice.ID, slice.Token, slice.From, slice.Seq, now()))
		if err == nil && added {
			_, err = stmt.chunk.Exec(slice.ID, slice.Seq, slice.Text)
		}
		if err != nil {
			return plane.Row{}, err
		}
		return stmt.row(slice.ID)
	})
}

// Cancel sets the cancel flag. See store.Store.
func (s *Store) Cancel(ctx context.Context, id string) (plane.Row, error) {
	return s.change(ctx, "cancel", id, func(stmt statements) (plane.Row, error) {
		if _, err := stmt.cancel.Exec(id, now()); err != nil {
			return plane.Row{}, err
		}
		return stmt.row(id)
	})
}

// Seal writes the end of a stream. See plane.Store.
func (s *Store) Seal(ctx context.Context, seal plane.Seal) (plane.Row, error) {
	if err := rows.CheckLength(seal.Base, seal.Seq, seal.Text); err != nil {
		return plane.Row{}, fmt.Errorf("seal %q: %w", seal.ID, err)
	}
	return s.change(ctx, "seal", seal.ID, func(stmt statements) (plane.Row, error) {
		row, err := stmt.row(seal.ID)
		if err != nil || row.Token != seal.Token || row.Status != plane.StatusStreaming || row.Seq > seal.Seq {
			return row, err
		}
		body := seal.Text
		if seal.Base > 0 { // only the database has the beginning
			below, err := stmt.whole(seal.ID, seal.Base)
			if hole, ok := errors.AsType[*plane.HoleError](err); ok {
				if err := stmt.cut(seal, row, hole); err != nil {
					return plane.Row{}, err
				}
				return stmt.row(seal.ID)
			}
			if err != nil {
				return plane.Row{}, err
			}
			body = below + seal.Text
		}
		if err := stmt.fold(seal, body); err != nil {
			return plane.Row{}, err
		}
		return stmt.row(seal.ID)
	})
}

// fold makes body the text of a row that is seal.Token's and streaming.
func (s statements) fold(seal plane.Seal, body string) error {
	var message *string
	if seal.HasError {
		message = new(store.Sound(seal.Error))
	}
	marks, err := encodeMarks(body)
	if err != nil {
		return err
	}
	_, err = s.seal.Exec(seal.ID, seal.Token, body, marks, seal.Seq, string(seal.Status), message, now(), rows.Meta(seal.Meta))
	if err == nil {
		_, err = s.drop.Exec(seal.ID)
	}
	return err
}

func applied(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// now is the time as it is stored.
func now() int64 { return time.Now().UnixMicro() }
