package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"rillkeep.dev/rillkeep/store"
)

const (
	// renewSQL: ?1 name, ?2 incarnation, ?3 and ?4 its addresses, ?5 now, ?6 until
	// when. A lease that is renewed after six tenths of it had a gap.
	renewSQL = `
		INSERT INTO nodes AS n (name, incarnation, http_addr, gossip_addr, heartbeat_at, expires_at, since)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?5)
		ON CONFLICT (name, incarnation) DO UPDATE
		SET http_addr = excluded.http_addr, gossip_addr = excluded.gossip_addr,
			heartbeat_at = excluded.heartbeat_at, expires_at = excluded.expires_at,
			since = CASE WHEN n.heartbeat_at + (n.expires_at - n.heartbeat_at) * 0.6 > ?5 THEN min(n.since, ?5) ELSE ?5 END
		RETURNING since`

	releaseSQL = `DELETE FROM nodes WHERE name = ?1 AND incarnation = ?2`

	// supersedeSQL ends the leases of the other runs of a node: ?3 now.
	supersedeSQL = `UPDATE nodes SET expires_at = ?3 WHERE name = ?1 AND incarnation <> ?2 AND expires_at > ?3`

	nodesSQL = `
		SELECT name, incarnation, http_addr, gossip_addr FROM nodes
		WHERE expires_at > ?1 ORDER BY name, incarnation`

	pruneSQL = `DELETE FROM nodes WHERE expires_at < ?1`

	// steadySQL is a condition: the node ?1 with the incarnation ?2 has a lease that,
	// at ?3, had no gap for its time.
	steadySQL = `EXISTS (
		SELECT 1 FROM nodes
		WHERE name = ?1 AND incarnation = ?2 AND since < ?3 - (expires_at - heartbeat_at)
			AND heartbeat_at + (expires_at - heartbeat_at) * 0.6 > ?3)`
)

// leaseKept is how long a lease that has run out stays, for who wonders what
// became of a node.
const leaseKept = time.Hour

// Renew makes a node's lease last ttl from now on. See store.Shared.
func (s *Store) Renew(ctx context.Context, node store.Node, ttl time.Duration) (since time.Time, err error) {
	var began int64
	err = s.do(func() error {
		if err := s.names.hold(ctx); err != nil {
			return err
		}
		return s.writer.writeSoon(ctx, func(stmt statements) error {
			now := now() // and not when it was asked for: it may have waited
			return stmt.conn.QueryRowContext(context.Background(), renewSQL,
				node.Name, node.Incarnation, node.HTTPAddr, node.GossipAddr, now, now+ttl.Microseconds()).Scan(&began)
		})
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("renew the lease of %q: %w", node.Name, err)
	}
	return time.UnixMicro(began), nil
}

// Release gives up a node's lease. See store.Shared.
func (s *Store) Release(ctx context.Context, node store.Node) error {
	err := s.do(func() error {
		return s.writer.writeSoon(ctx, func(stmt statements) error {
			_, err := stmt.exec(releaseSQL, node.Name, node.Incarnation)
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("release the lease of %q: %w", node.Name, err)
	}
	return nil
}

// Nodes answers those whose lease lasts. See store.Shared.
func (s *Store) Nodes(ctx context.Context) (list []store.Node, err error) {
	scan := func(from *sql.Rows) (n store.Node, err error) {
		err = from.Scan(&n.Name, &n.Incarnation, &n.HTTPAddr, &n.GossipAddr)
		return n, err
	}
	err = s.do(func() error {
		list, err = collect(scan)(s.reads.QueryContext(ctx, nodesSQL, now()))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return list, nil
}

// steady reports whether a node has a lease that had no gap for its time.
func (s *Store) steady(ctx context.Context, node store.Node) (yes bool, err error) {
	err = s.reads.QueryRowContext(ctx, "SELECT "+steadySQL, node.Name, node.Incarnation, now()).Scan(&yes)
	return yes, err
}

// prune forgets leases that have been over for long, and for longer than grace.
func (s *Store) prune(ctx context.Context, grace time.Duration) error {
	before := now() - max(leaseKept, grace).Microseconds()
	var some bool
	err := s.reads.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM nodes WHERE expires_at < ?1)", before).Scan(&some)
	if err == nil && some {
		err = s.writer.write(ctx, func(stmt statements) error {
			_, err := stmt.exec(pruneSQL, before)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("prune leases: %w", err)
	}
	return nil
}
