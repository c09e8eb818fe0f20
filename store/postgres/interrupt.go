package postgres

import (
	"context"
	"fmt"

	"rillkeep.dev/rillkeep/store/internal/pg"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// TakeName makes a node's name this store's alone. See store.Named.
func (s *Store) TakeName(ctx context.Context, node string) error {
	if err := s.calls.Do(func() error { return s.name.Take(ctx, node, s.schema) }); err != nil {
		return pg.Failed(ctx, err, "take the name %q", node)
	}
	return nil
}

// Interrupt seals what earlier runs of a node left streaming. See store.Store.
func (s *Store) Interrupt(ctx context.Context, node, incarnation string) (int, error) {
	all, but, err := rows.Orphans(node, incarnation)
	if err != nil {
		return 0, err
	}
	if err := s.TakeName(ctx, node); err != nil {
		return 0, fmt.Errorf("interrupt: %w", err)
	}
	// The name proves that the runs before are gone.
	if err := s.leases.Supersede(ctx, node, incarnation); err != nil {
		return 0, pg.Failed(ctx, err, "interrupt: end the leases of earlier runs")
	}
	return s.sealer().Interrupt(ctx, all, but)
}
