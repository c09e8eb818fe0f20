package mapped

import (
	"context"
	"errors"
	"time"

	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/pg"
)

// The SQL of sweeps, as that in sql.go. A row that says streaming and has no owner
// token is none of Rillkeep's, whoever made it so.
const (
	// ownedSQL is whether a row has an owner token, and ownerSQL that, in an order
	// of bytes: the column's collation may be any.
	ownedSQL = `m.{status} = 'streaming' AND {owner} ~ '^[^/]+/[^/]+/[0-9]+(/[0-9,]+)?$'`
	ownerSQL = `(m.{host}::text COLLATE "C")`

	// unknownSQL writes down that an owner has no lease: it is over from now on.
	// The table does not say when its rows changed, so that nobody else would know
	// for how long that has been so.
	unknownSQL = `
		INSERT INTO rillkeep.nodes (name, incarnation, expires_at)
		SELECT DISTINCT o.name, o.incarnation, now()
		FROM (
			SELECT split_part({owner}, '/', 1) AS name, split_part({owner}, '/', 2) AS incarnation
			FROM {messages} m WHERE {is owned}
		) o
		WHERE NOT EXISTS (SELECT FROM rillkeep.nodes n WHERE n.name = o.name AND n.incarnation = o.incarnation)
		ON CONFLICT DO NOTHING`

	// orphanedSQL is pg.SweepSQL's Orphans.
	orphanedSQL = `
		SELECT m.{id}::text, coalesce(m.{seq}, 0)::bigint
		FROM rillkeep.nodes n JOIN {messages} m
			ON n.name = split_part({owner}, '/', 1) AND n.incarnation = split_part({owner}, '/', 2)
		WHERE {is owned} AND n.expires_at < now() - $1::interval AND ` + pg.SteadySQL + ` AND m.{id}::text <> ALL ($3::text[])
		LIMIT $2 FOR NO KEY UPDATE OF m SKIP LOCKED`

	// textsSQL is its Texts.
	textsSQL = `
		SELECT m.{id}::text, coalesce(m.{body}, ''), c.ends, c.texts
		FROM unnest($1::text[]) AS s (id) JOIN {messages} m ON m.{id} = {key of s}, LATERAL (
			SELECT array_agg(k.{end}::bigint ORDER BY k.{end}) AS ends, array_agg(k.{text} ORDER BY k.{end}) AS texts
			FROM {chunks} k WHERE k.{stream} = {chunk's key of s}
		) c`

	// interruptedSQL is its Seal: $1 id, $2 body.
	interruptedSQL = `
		WITH d AS (DELETE FROM {chunks} c WHERE c.{stream} = {chunk's key})
		UPDATE {messages} m SET {body} = $2::text, {status} = 'interrupted' WHERE m.{id} = {key}`
)

// Sweep seals orphans. See store.Shared.
func (s *Store) Sweep(ctx context.Context, node store.Node, grace time.Duration) (int, error) {
	if s.has.Host == "" {
		return 0, errNoHost
	}
	if _, err := s.pool.Exec(ctx, s.stmt.unknown); err != nil {
		return 0, pg.Failed(ctx, err, "sweep: find owners without a lease")
	}
	sweeper := pg.Sweeper{
		Pool: s.pool, Leases: s.leases, Feed: s.feed, SQL: s.stmt.sweep,
		Args:    func(id, text string) []any { return []any{id, text} },
		CutArgs: s.cutArgs,
	}
	count, err := sweeper.Sweep(ctx, node, grace)
	sweeper.SQL.Orphans = s.stmt.disowned
	more, failed := sweeper.Sweep(ctx, node, grace)
	return count + more, errors.Join(err, failed)
}
