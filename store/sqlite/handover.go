package sqlite

import (
	"context"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// Disown gives up a stream for another node to adopt. See plane.Handover.
func (s *Store) Disown(ctx context.Context, id, token string) (plane.Row, error) {
	return s.change(ctx, "disown", id, func(stmt statements) (plane.Row, error) {
		row, err := stmt.row(id)
		if err != nil || row.Status != plane.StatusStreaming || row.Token != token || row.Disowned() {
			return row, err
		}
		return stmt.own(id, rows.Mark(time.Now(), row.Epoch))
	})
}

// Adopt makes a stream that was disowned the node's. See plane.Handover.
func (s *Store) Adopt(ctx context.Context, id, mark, node string) (plane.Row, error) {
	return s.change(ctx, "adopt", id, func(stmt statements) (plane.Row, error) {
		row, err := stmt.row(id)
		switch {
		case err != nil:
			return row, err
		case rows.Adopts(mark, row):
			return stmt.own(id, rows.Token(node, row.Epoch))
		}
		return row, rows.JudgeAdoption(node, row)
	})
}

// own sets the owner of a row in the middle of a write.
func (s statements) own(id, owner string) (plane.Row, error) {
	if _, err := s.owner.Exec(id, owner, now()); err != nil {
		return plane.Row{}, err
	}
	return s.row(id)
}
