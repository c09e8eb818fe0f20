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

// Supersede ends the leases of a node's earlier runs. See store.Named.
func (s *Store) Supersede(ctx context.Context, node, incarnation string) error {
	err := rows.CheckRun(node, incarnation)
	if err == nil {
		err = s.TakeName(ctx, node)
	}
	if err != nil {
		return fmt.Errorf("supersede: %w", err)
	}
	return s.leases.Supersede(ctx, node, incarnation)
}
