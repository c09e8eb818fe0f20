package sqlite

import (
	"context"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// Disown gives up a stream for another node to adopt. See plane.Handover.
func (s *Store) Disown(ctx context.Context, id, token string, session int64) (plane.Row, error) {
	return s.change(ctx, "disown", id, func(stmt statements) (plane.Row, error) {
		row, err := stmt.row(id)
		if err != nil || row.Status != plane.StatusStreaming || row.Token != token || row.Disowned() {
			return row, err
		}
		if _, err := stmt.owner.Exec(id, rows.Mark(time.Now(), session, row), now()); err != nil {
			return plane.Row{}, err
		}
		return stmt.row(id)
	})
}

// Adopt makes a stream that was disowned the node's. See plane.Handover.
func (s *Store) Adopt(ctx context.Context, id, mark, node string) (plane.Row, error) {
	return s.change(ctx, "adopt", id, func(stmt statements) (plane.Row, error) {
		row, err := stmt.rowWithProducer(id)
		switch {
		case err != nil:
			return row, err
		case !rows.Adopts(mark, row):
			return row, rows.JudgeAdoption(node, row)
		}
		if _, err := stmt.owner.Exec(id, rows.Adopted(node, row), now()); err != nil {
			return plane.Row{}, err
		}
		return stmt.rowWithProducer(id)
	})
}
