package pg

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

const (
	// renewSQL: $1 name, $2 incarnation, $3 and $4 its addresses, $5 how long. A
	// lease that is renewed after six tenths of it had a gap. Repeated for want of an
	// answer, it tells of that gap again.
	renewSQL = `
		INSERT INTO rillkeep.nodes AS n (name, incarnation, http_addr, gossip_addr, heartbeat_at, expires_at)
		VALUES ($1, $2, $3, $4, now(), now() + $5::interval)
		ON CONFLICT (name, incarnation) DO UPDATE
		SET http_addr = excluded.http_addr, gossip_addr = excluded.gossip_addr,
			heartbeat_at = excluded.heartbeat_at, expires_at = excluded.expires_at,
			since = CASE WHEN n.heartbeat_at + (n.expires_at - n.heartbeat_at) * 0.6 > now() THEN least(n.since, now()) ELSE now() END
		RETURNING greatest(since, to_timestamp(0))`

	releaseSQL = `DELETE FROM rillkeep.nodes WHERE name = $1 AND incarnation = $2`

	// supersedeSQL ends the leases of the other runs of a node.
	supersedeSQL = `UPDATE rillkeep.nodes SET expires_at = now() WHERE name = $1 AND incarnation <> $2 AND expires_at > now()`

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

// SteadySQL is a condition: the node $4 with the incarnation $5 has a lease that had
// no gap for its time.
const SteadySQL = `EXISTS (
	SELECT FROM rillkeep.nodes
	WHERE name = $4 AND incarnation = $5 AND since < now() - (expires_at - heartbeat_at)
		AND heartbeat_at + (expires_at - heartbeat_at) * 0.6 > now())`

// Leases are the nodes' leases on a database, in the table nodes of a schema.
type Leases struct {
	pool    *pgxpool.Pool
	named   *strings.Replacer
	session session // for renewals
	calls   *rows.Calls
}

// NewLeases returns the leases of a schema. pool and calls are the store's.
func NewLeases(pool *pgxpool.Pool, schema string, calls *rows.Calls) *Leases {
	return &Leases{pool: pool, named: Named(schema), session: newSession(pool.Config().ConnConfig), calls: calls}
}

// Named puts a schema's name where SQL says rillkeep.
func Named(schema string) *strings.Replacer {
	return strings.NewReplacer("rillkeep.", pgx.Identifier{schema}.Sanitize()+".")
}

// Renew makes a node's lease last ttl from now on. See store.Shared.
func (l *Leases) Renew(ctx context.Context, node store.Node, ttl time.Duration) (since time.Time, err error) {
	err = l.calls.Do(func() error {
		return l.session.do(ctx, func(conn *pgx.Conn) error {
			return conn.QueryRow(ctx, l.named.Replace(renewSQL), node.Name, node.Incarnation, node.HTTPAddr, node.GossipAddr, ttl).Scan(&since)
		})
	})
	if err != nil {
		return time.Time{}, Failed(ctx, err, "renew the lease of %q", node.Name)
	}
	return since, nil
}

// Release gives up a node's lease. See store.Shared.
func (l *Leases) Release(ctx context.Context, node store.Node) error {
	err := l.calls.Do(func() error {
		return l.session.do(ctx, func(conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, l.named.Replace(releaseSQL), node.Name, node.Incarnation)
			return err
		})
	})
	if err != nil {
		return Failed(ctx, err, "release the lease of %q", node.Name)
	}
	return nil
}

// Nodes answers those whose lease lasts. See store.Shared.
func (l *Leases) Nodes(ctx context.Context) ([]store.Node, error) {
	found, err := l.pool.Query(ctx, l.named.Replace(nodesSQL))
	if err != nil {
		return nil, Failed(ctx, err, "list nodes")
	}
	nodes, err := pgx.CollectRows(found, pgx.RowToStructByPos[store.Node])
	if err != nil {
		return nil, Failed(ctx, err, "list nodes")
	}
	return nodes, nil
}

// Supersede ends the leases of a node's other runs, which are gone: who calls it
// has the node's name.
func (l *Leases) Supersede(ctx context.Context, node, incarnation string) error {
	if _, err := l.pool.Exec(ctx, l.named.Replace(supersedeSQL), node, incarnation); err != nil {
		return Failed(ctx, err, "end the leases of earlier runs of %q", node)
	}
	return nil
}

// Prune forgets leases that have been over for long, and for longer than grace.
func (l *Leases) Prune(ctx context.Context, grace time.Duration) error {
	if _, err := l.pool.Exec(ctx, l.named.Replace(pruneSQL), max(leaseKept, grace)); err != nil {
		return Failed(ctx, err, "prune leases")
	}
	return nil
}

// Close ends the session of the renewals. Nobody may be using it.
func (l *Leases) Close() error { return l.session.close() }
