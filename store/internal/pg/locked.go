package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

// patience is how long a call whose caller has little of it, or none, tries for
// a row that is locked; the pauses between the tries grow to maxPause. Between
// them it has no connection.
const (
	patience = time.Second
	maxPause = 100 * time.Millisecond
)

// Patiently repeats a call that finds its row locked.
func Patiently(ctx context.Context, call func() (plane.Row, error)) (plane.Row, error) {
	over := time.Now().Add(patience)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, maxPause) {
		row, err := call()
		if !Locked(err) || time.Until(over) < pause {
			return row, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return row, err
		}
	}
}

// Locked reports whether err says that another session has a lock.
func Locked(err error) bool {
	const lockNotAvailable = "55P03" // NOWAIT or lock_timeout
	said, ok := errors.AsType[*pgconn.PgError](err)
	return ok && said.Code == lockNotAvailable
}

// TimedOut reports whether err says that a lock was waited for, longer than
// lock_timeout lets it. Some that is not waited for is refused at once.
func TimedOut(err error) bool {
	said, ok := errors.AsType[*pgconn.PgError](err)
	return ok && Locked(err) && said.Routine == "ProcessInterrupts" // no more than this tells one from the other
}

// Failed says what failed; that a lock was in the way, or that trying again can't
// help, if so; and that the context had ended, if so: the server then only says
// that it was asked to stop.
func Failed(ctx context.Context, err error, format string, args ...any) error {
	switch {
	case Locked(err):
		err = fmt.Errorf("%w: %w", store.ErrBusy, err)
	case broken(err):
		err = fmt.Errorf("%w: %w", plane.ErrBroken, err)
	}
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		err = fmt.Errorf("%w: %w", ended, err)
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}
