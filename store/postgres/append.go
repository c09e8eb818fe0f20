package postgres

import (
	"context"
	"fmt"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/internal/pg"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// Append adds a slice as a chunk row, together with those of other streams. See
// plane.Store. store.ErrBusy if the row is locked: the stream has a rhythm of its
// own for repeats.
func (s *Store) Append(ctx context.Context, slice plane.Slice) (plane.Row, error) {
	if err := rows.CheckLength(slice.From, slice.Seq, slice.Text); err != nil {
		return plane.Row{}, fmt.Errorf("append to %q: %w", slice.ID, err)
	}
	if slice.Text == "" {
		return s.Read(ctx, slice.ID)
	}
	var row plane.Row
	err := s.calls.Do(func() (err error) {
		row, err = s.appends.Append(ctx, slice)
		return err
	})
	if err != nil {
		return plane.Row{}, pg.Failed(ctx, err, "append to %q", slice.ID)
	}
	return row, nil
}

// appender appends to the tables, for a group.
func (s *Store) appender() *pg.Appender {
	return &pg.Appender{Pool: s.pool, Patient: pg.Patient(s.pool), SQL: pg.AppendSQL{
		Now: s.stmt.appendNow, Row: s.stmt.read, One: s.stmt.append, Many: s.stmt.appends, Free: s.stmt.appendsFree, Rows: s.stmt.readAll,
	}}
}
