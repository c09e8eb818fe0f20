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

// Supersede ends the leases of a node's earlier runs. See store.Named. Without a host
// column there are none.
func (s *Store) Supersede(ctx context.Context, node, incarnation string) error {
	err := rows.CheckRun(node, incarnation)
	if err == nil {
		err = s.TakeName(ctx, node)
	}
	if err != nil {
		return fmt.Errorf("supersede: %w", err)
	}
	if s.has.Host == "" {
		return nil
	}
	return s.leases.Supersede(ctx, node, incarnation)
}
