package postgres

import (
	"context"
	"time"

	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/pg"
)

// Renew makes a node's lease last ttl from now on. See store.Shared.
func (s *Store) Renew(ctx context.Context, node store.Node, ttl time.Duration) (since time.Time, err error) {
	if err := s.name.Hold(ctx); err != nil { // its session may have been lost
		return time.Time{}, pg.Failed(ctx, err, "hold the name of %q", node.Name)
	}
	return s.leases.Renew(ctx, node, ttl)
}

// Release gives up a node's lease. See store.Shared.
func (s *Store) Release(ctx context.Context, node store.Node) error {
	return s.leases.Release(ctx, node)
}

// Nodes answers those whose lease lasts. See store.Shared.
func (s *Store) Nodes(ctx context.Context) ([]store.Node, error) { return s.leases.Nodes(ctx) }
