package storetest

import (
	"context"
	"errors"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// Disown gives up a stream. See plane.Handover.
func (m *Memory) Disown(ctx context.Context, id, token string, session int64) (plane.Row, error) {
	row, err := m.hand(ctx, "disown", id, token, func(r *Row) error {
		if row := m.row(r); row.Status == plane.StatusStreaming && row.Token == token && !row.Disowned() {
			r.Token, r.Updated = rows.Mark(time.Now(), session, row), time.Now()
		}
		return nil
	})
	row.Producer = ""
	return row, err
}

// Adopt makes a stream that was given up the node's. See plane.Handover.
func (m *Memory) Adopt(ctx context.Context, id, mark, node string) (plane.Row, error) {
	return m.hand(ctx, "adopt", id, node, func(r *Row) error {
		if row := m.row(r); rows.Adopts(mark, row) {
			r.Token, r.Updated = rows.Adopted(node, row), time.Now()
		}
		return rows.JudgeAdoption(node, m.row(r))
	})
}

// TakeOver takes a stream over whose owner is dead. See plane.Takeover. A Memory by
// itself has no leases; the nodes of a SharedMemory have.
func (m *Memory) TakeOver(ctx context.Context, token string, claim plane.Claim) (plane.Row, error) {
	return m.hand(ctx, "takeover", claim.ID, claim.Node, func(r *Row) error {
		row := m.row(r)
		lasts := m.lasts != nil && m.lasts(row.Token)
		if lasts || !rows.Takes(token, row) {
			return rows.JudgeTakeover(claim.Node, token, row, lasts)
		}
		r.Token, r.Epoch, r.Updated = rows.Taken(claim.Node, row), r.Epoch+1, time.Now()
		r.Producer = store.Sound(claim.Producer)
		return nil
	})
}

// hand changes the owner of a row, and answers it with its producer.
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
			return m.claimed(r), nil
		})
	})
}
