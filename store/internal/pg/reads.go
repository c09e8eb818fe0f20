package pg

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// spared is how many connections of a pool are not for what readers ask, so that
// writes don't queue behind reads, however many there are.
const spared = 3

// Reads bounds how many of a pool's connections readers have at once. It is safe
// for concurrent use.
type Reads chan struct{}

// NewReads returns the bound for a pool: all connections but three, or one.
func NewReads(pool *pgxpool.Pool) Reads {
	return make(Reads, max(1, pool.Config().MaxConns-spared))
}

// Begin waits for a place until ctx ends. Who has one calls End.
func (r Reads) Begin(ctx context.Context) error {
	select {
	case r <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// End gives the place back.
func (r Reads) End() { <-r }
