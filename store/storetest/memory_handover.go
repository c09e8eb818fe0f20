package storetest

import (
	"context"
	"errors"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// Disown gives up a stream. See plane.Handover.
func (m *Memory) Disown(ctx context.Context, id, token string) (plane.Row, error) {
	return m.hand(ctx, "disown", id, token, func(r *Row) error {
		if row := m.row(r); row.Status == plane.StatusStreaming && row.Token == token && !row.Disowned() {
			r.Token, r.Updated = rows.Mark(time.Now(), r.Epoch), time.Now()
		}
		return nil
	})
}

// Adopt takes over a stream that was given up. See plane.Handover.
func (m *Memory) Adopt(ctx context.Context, id, mark, node string) (plane.Row, error) {
	return m.hand(ctx, "adopt", id, node, func(r *Row) error {
		if rows.Adopts(mark, m.row(r)) {
			r.Token, r.Updated = rows.Token(node, r.Epoch), time.Now()
		}
		return rows.JudgeAdoption(node, m.row(r))
	})
}

// hand changes the owner of a row.
func (m *Memory) hand(ctx context.Context, kind, id, by string, do func(*Row) error) (plane.Row, error) {
	call := Call{Kind: kind, ID: id}
	return answer(m, call, func() (plane.Row, error) {
		if m.NoTokens {
			return plane.Row{}, errors.ErrUnsupported
		}
		return write(ctx, m, call, func() (plane.Row, error) {
			defer m.note(kind, id, by)()
			r, err := m.find(id)
			if err == nil {
				err = do(r)
			}
			if err != nil {
				return plane.Row{}, err
			}
			return m.row(r), nil
		})
	})
}
