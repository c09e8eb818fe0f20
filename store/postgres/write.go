package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// Open claims a stream, creating its row if there is none. See plane.Store.
func (s *Store) Open(ctx context.Context, claim plane.Claim) (plane.Row, error) {
	row, err := patiently(ctx, func() (plane.Row, error) { return s.open(ctx, claim) })
	if err != nil {
		return plane.Row{}, failed(ctx, err, "open %q", claim.ID)
	}
	return row, nil
}

func (s *Store) open(ctx context.Context, claim plane.Claim) (plane.Row, error) {
	var meta *string
	if claim.Meta != nil {
		meta = new(string(claim.Meta))
	}
	var claimed bool
	var before plane.Row
	err := rows.Scan(s.pool.QueryRow(ctx, s.stmt.open, claim.ID, claim.Node, store.Sound(claim.Producer), meta), &before, &claimed)
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
	err = rows.Scan(s.pool.QueryRow(ctx, s.stmt.found, id), &found.Row, nil, &found.HasText)
	return found, err
}

// Append adds a slice as a chunk row. See plane.Store. store.ErrBusy at once if
// the row is locked: the stream has a rhythm of its own for repeats.
func (s *Store) Append(ctx context.Context, slice plane.Slice) (plane.Row, error) {
	row, err := s.append(ctx, slice)
	if err != nil {
		return plane.Row{}, failed(ctx, err, "append to %q", slice.ID)
	}
	return row, nil
}

func (s *Store) append(ctx context.Context, slice plane.Slice) (plane.Row, error) {
	if err := rows.CheckLength(slice.From, slice.Seq, slice.Text); err != nil {
		return plane.Row{}, err
	}
	if slice.Text == "" {
		return s.Read(ctx, slice.ID)
	}
	return s.row(ctx, s.stmt.append, slice.ID, slice.Token, slice.From, slice.Seq, slice.Text)
}

// Cancel sets the cancel flag. See store.Store.
func (s *Store) Cancel(ctx context.Context, id string) (plane.Row, error) {
	row, err := patiently(ctx, func() (plane.Row, error) { return s.row(ctx, s.stmt.cancel, id) })
	if err != nil {
		return plane.Row{}, failed(ctx, err, "cancel %q", id)
	}
	return row, nil
}

// patience is how long a call whose caller has little of it, or none, tries for
// a row that is locked; the pauses between the tries grow to maxPause. Between
// them it has no connection.
const (
	patience = time.Second
	maxPause = 100 * time.Millisecond
)

// patiently repeats a call that finds its row locked.
func patiently(ctx context.Context, call func() (plane.Row, error)) (plane.Row, error) {
	over := time.Now().Add(patience)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, maxPause) {
		row, err := call()
		if !locked(err) || time.Until(over) < pause {
			return row, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return row, err
		}
	}
}

// locked reports whether err says that another session has a lock.
func locked(err error) bool {
	const lockNotAvailable = "55P03" // NOWAIT or lock_timeout
	said, ok := errors.AsType[*pgconn.PgError](err)
	return ok && said.Code == lockNotAvailable
}

// failed says what failed; that a lock was in the way, or that trying again can't
// help, if so; and that the context had ended, if so: the server then only says
// that it was asked to stop.
func failed(ctx context.Context, err error, format string, args ...any) error {
	switch {
	case locked(err):
		err = fmt.Errorf("%w: %w", store.ErrBusy, err)
	case broken(err):
		err = fmt.Errorf("%w: %w", plane.ErrBroken, err)
	}
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		err = fmt.Errorf("%w: %w", ended, err)
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}
