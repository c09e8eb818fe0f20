package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/store"
)

const (
	// renewSQL: $1 name, $2 incarnation, $3 and $4 its addresses, $5 how long. A
	// lease that is renewed after six tenths of it had a gap.
	renewSQL = `
		INSERT INTO rillkeep.nodes AS n (name, incarnation, http_addr, gossip_addr, heartbeat_at, expires_at)
		VALUES ($1, $2, $3, $4, now(), now() + $5::interval)
		ON CONFLICT (name, incarnation) DO UPDATE
		SET http_addr = excluded.http_addr, gossip_addr = excluded.gossip_addr,
			heartbeat_at = excluded.heartbeat_at, expires_at = excluded.expires_at,
			since = CASE WHEN n.heartbeat_at + (n.expires_at - n.heartbeat_at) * 0.6 > now() THEN least(n.since, now()) ELSE now() END`

	releaseSQL = `DELETE FROM rillkeep.nodes WHERE name = $1 AND incarnation = $2`

	// supersedeSQL ends the leases of the other runs of a node.
	supersedeSQL = `DELETE FROM rillkeep.nodes WHERE name = $1 AND incarnation <> $2`

	nodesSQL = `
		SELECT name, incarnation, http_addr, gossip_addr FROM rillkeep.nodes
		WHERE expires_at > now() ORDER BY name, incarnation`

	// pruneSQL: $1 how long a lease has been over.
	pruneSQL = `
		DELETE FROM rillkeep.nodes WHERE (name, incarnation) IN (
			SELECT name, incarnation FROM rillkeep.nodes WHERE expires_at < now() - $1::interval FOR UPDATE SKIP LOCKED)`
)

// leaseKept is how long a lease that has run out stays, for who wonders what
// became of a node.
const leaseKept = time.Hour

// Renew makes a node's lease last ttl from now on. See store.Shared.
func (s *Store) Renew(ctx context.Context, node store.Node, ttl time.Duration) error {
	err := s.calls.Do(func() error {
		if err := s.name.Hold(ctx); err != nil { // its session may have been lost
			return err
		}
		return s.lease.exec(ctx, s.sql(renewSQL), node.Name, node.Incarnation, node.HTTPAddr, node.GossipAddr, ttl)
	})
	if err != nil {
		return failed(ctx, err, "renew the lease of %q", node.Name)
	}
	return nil
}

// Release gives up a node's lease. See store.Shared.
func (s *Store) Release(ctx context.Context, node store.Node) error {
	err := s.calls.Do(func() error { return s.lease.exec(ctx, s.sql(releaseSQL), node.Name, node.Incarnation) })
	if err != nil {
		return failed(ctx, err, "release the lease of %q", node.Name)
	}
	return nil
}

// Nodes answers those whose lease lasts. See store.Shared.
func (s *Store) Nodes(ctx context.Context) ([]store.Node, error) {
	found, err := s.pool.Query(ctx, s.sql(nodesSQL))
	if err != nil {
		return nil, failed(ctx, err, "list nodes")
	}
	nodes, err := pgx.CollectRows(found, pgx.RowToStructByPos[store.Node])
	if err != nil {
		return nil, failed(ctx, err, "list nodes")
	}
	return nodes, nil
}
