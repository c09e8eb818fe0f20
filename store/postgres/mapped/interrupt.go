package mapped

import (
	"context"
	"fmt"

	"rillkeep.dev/rillkeep/store/internal/pg"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// TakeName makes a node's name this store's alone, in the place where the leases
// are. See store.Named. Without a host column no row is the name's, and nothing is
// taken.
func (s *Store) TakeName(ctx context.Context, node string) error {
	take := func() error {
		if s.has.Host == "" {
			return nil
		}
		return s.name.Take(ctx, node, schema)
	}
	if err := s.calls.Do(take); err != nil {
		return pg.Failed(ctx, err, "take the name %q", node)
	}
	return nil
}

// Interrupt seals what earlier runs of a node left streaming. See store.Store.
// Without a host column nobody knows what they left, and nothing is sealed.
func (s *Store) Interrupt(ctx context.Context, node, incarnation string) (count int, err error) {
	all, but, err := rows.Orphans(node, incarnation)
	if err != nil {
		return 0, err
	}
	if err := s.TakeName(ctx, node); err != nil {
		return 0, fmt.Errorf("interrupt: %w", err)
	}
	if s.has.Host == "" {
		return 0, nil
	}
	// The name proves that the runs before are gone.
	if err := s.leases.Supersede(ctx, node, incarnation); err != nil {
		return 0, pg.Failed(ctx, err, "interrupt: end the leases of earlier runs")
	}
	return s.sealer().Interrupt(ctx, all, but)
}
