package postgres

import (
	"context"
	"time"

	"rillkeep.dev/rillkeep/store"
)

// SharedSQL is SQL for what several nodes share, but that of the leases, which are
// few.
func (s *Store) SharedSQL() map[string][2]string {
	return map[string][2]string{
		"orphaned": {s.sql(orphanedSQL), "'30s', 16, '{}', 'n1', 'boot1'"},
		"texts":    {s.sql(textsSQL), "'{s1,s2}'"},
		"fold":     {s.sql(interruptedSQL), "'s1', 'x', '{}'"},
		"ended":    {s.sql(endedSQL), "'30d', 100, '{}'"},
		"delete":   {s.sql(deleteSQL), "'30d', '{s1,s2}'"},
	}
}

// Steady gives a node a lease that has had no gap for long.
func (s *Store) Steady(ctx context.Context, node store.Node) error {
	_, err := s.Renew(ctx, node, time.Hour)
	if err == nil {
		_, err = s.pool.Exec(ctx, s.sql("UPDATE rillkeep.nodes SET since = '-infinity' WHERE name = $1 AND incarnation = $2"), node.Name, node.Incarnation)
	}
	return err
}
