package postgres

import (
	"context"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/internal/pg"
)

// What calls have in common with those of package mapped.

func patiently(ctx context.Context, call func() (plane.Row, error)) (plane.Row, error) {
	return pg.Patiently(ctx, call)
}

func locked(err error) bool { return pg.Locked(err) }

func failed(ctx context.Context, err error, format string, args ...any) error {
	return pg.Failed(ctx, err, format, args...)
}
