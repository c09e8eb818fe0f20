package postgres

import (
	"context"
	"errors"
	"fmt"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/pg"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// Open claims a stream, creating its row if there is none. See plane.Store.
func (s *Store) Open(ctx context.Context, claim plane.Claim) (plane.Row, error) {
	row, err := pg.Patiently(ctx, func() (plane.Row, error) { return s.open(ctx, claim) })
	if err != nil {
		return plane.Row{}, pg.Failed(ctx, err, "open %q", claim.ID)
	}
	return row, nil
}

func (s *Store) open(ctx context.Context, claim plane.Claim) (plane.Row, error) {
	var claimed bool
	var before plane.Row
	err := rows.Scan(s.pool.QueryRow(ctx, s.stmt.open, claim.ID, claim.Node, store.Sound(claim.Producer), rows.Meta(claim.Meta)),
		&before, &claimed, &before.Producer)
	none := errors.Is(err, plane.ErrNotFound)
	if claimed || err != nil && !none {
		return before, err
	}
	// Not claimed: a refusal, an earlier claim of ours, or somebody was faster
	// than this statement, which then saw the row as it was before.
	now, err := s.find(ctx, claim.ID)
	switch {
	case none && errors.Is(err, plane.ErrNotFound):
		return plane.Row{}, fmt.Errorf("%w: chunk rows are left of it", plane.ErrExists)
	case err != nil:
		return plane.Row{}, err
	}
	judge := rows.Judge
	if none || before.Status != plane.StatusStreaming && before.Seq == 0 {
		judge = rows.JudgeLost
	}
	own, err := judge(claim.Node, now)
	if !own && err == nil { // refused, and free again since
		err = plane.ErrLostRace
	}
	return now.Row, err
}

func (s *Store) find(ctx context.Context, id string) (found rows.Found, err error) {
	err = rows.Scan(s.pool.QueryRow(ctx, s.stmt.found, id), &found.Row, nil, &found.Producer, &found.HasText)
	return found, err
}

// Cancel sets the cancel flag. See store.Store.
func (s *Store) Cancel(ctx context.Context, id string) (plane.Row, error) {
	row, err := pg.Patiently(ctx, func() (plane.Row, error) { return s.row(ctx, s.stmt.cancel, id) })
	if err != nil {
		return plane.Row{}, pg.Failed(ctx, err, "cancel %q", id)
	}
	return row, nil
}
