package postgres

import (
	"context"
	"time"

	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/pg"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

const (
	// ownersEnd is the end of the range of tokens that belong to the owner of
	// token h: name/incarnation0, since 0 follows the slash. A token that is none
	// is an owner of its own.
	ownersEnd = `CASE WHEN h LIKE '%/%/%' THEN split_part(h, '/', 1) || '/' || split_part(h, '/', 2) || '0' ELSE h || E'\x01' END`

	// orphanedSQL: $1 grace, $2 how many, $3 ids that are passed over, $4 and $5
	// name and incarnation of who asks. The owners of streaming rows are looked up
	// one after the other, so that the rows of those that live cost nothing. A step
	// of the clock that ends the leases of the living ends that of who asks as
	// well: it finds nothing until they have had the time of a lease to renew.
	orphanedSQL = `
		WITH RECURSIVE owner (h) AS (
			(SELECT coalesce(host, '') FROM rillkeep.streams WHERE status = 'streaming' ORDER BY coalesce(host, '') LIMIT 1)
			UNION ALL
			SELECT next.host FROM owner, LATERAL (
				SELECT coalesce(s.host, '') AS host FROM rillkeep.streams s
				WHERE s.status = 'streaming' AND coalesce(s.host, '') >= ` + ownersEnd + `
				ORDER BY coalesce(s.host, '') LIMIT 1) next
		), gone AS (
			SELECT h, ` + ownersEnd + ` AS past, n.name IS NULL AS unknown
			FROM owner LEFT JOIN rillkeep.nodes n ON n.name = split_part(h, '/', 1) AND n.incarnation = split_part(h, '/', 2)
			WHERE (n.name IS NULL OR n.expires_at < now() - $1::interval) AND ` + pg.SteadySQL + `
		)
		SELECT s.id, s.seq
		FROM gone JOIN rillkeep.streams s
			ON s.status = 'streaming' AND coalesce(s.host, '') >= gone.h AND coalesce(s.host, '') < gone.past
		WHERE (NOT gone.unknown OR s.updated_at < now() - $1::interval) AND s.id <> ALL ($3::text[])
		LIMIT $2 FOR NO KEY UPDATE OF s SKIP LOCKED`

	// textsSQL: $1 ids. All of each text.
	textsSQL = `
		SELECT id, body, c.ends, c.texts
		FROM rillkeep.streams s, LATERAL (
			SELECT array_agg(seq ORDER BY seq) AS ends, array_agg(text ORDER BY seq) AS texts
			FROM rillkeep.chunks WHERE stream_id = s.id
		) c
		WHERE id = ANY ($1)`

	// interruptedSQL: $1 id, $2 body, $3 marks. Of a row that the transaction holds.
	interruptedSQL = `
		WITH d AS (DELETE FROM rillkeep.chunks WHERE stream_id = $1)
		UPDATE rillkeep.streams SET body = $2, marks = $3, status = 'interrupted', updated_at = now(), ended_at = now() WHERE id = $1`
)

// Sweep seals orphans. See store.Shared.
func (s *Store) Sweep(ctx context.Context, node store.Node, grace time.Duration) (int, error) {
	sweeper := pg.Sweeper{
		Pool: s.pool, Leases: s.leases, Feed: s.feed,
		SQL: pg.SweepSQL{
			Orphans: s.sql(orphanedSQL), Texts: s.sql(textsSQL), Seal: s.sql(interruptedSQL), Cut: s.stmt.cut,
		},
		Args:    func(id, text string) []any { return []any{id, text, rows.Marks(text)} },
		CutArgs: cutArgs,
	}
	return sweeper.Sweep(ctx, node, grace)
}
