package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
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
			WHERE (n.name IS NULL OR n.expires_at < now() - $1::interval) AND EXISTS (
				SELECT FROM rillkeep.nodes
				WHERE name = $4 AND incarnation = $5 AND since < now() - (expires_at - heartbeat_at)
					AND heartbeat_at + (expires_at - heartbeat_at) * 0.6 > now())
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

	// brokenSQL is interruptedSQL for a text with a hole, whose pieces are better left as
	// they are.
	brokenSQL = `UPDATE rillkeep.streams SET status = 'interrupted', updated_at = now(), ended_at = now() WHERE id = $1`
)

// What bounds one transaction of a sweep, and a sweep of rows that can't be sealed.
const (
	sweepRows   = 16
	sweepUnits  = 1 << 20 // unless one text is larger
	sweepSpoilt = 100
)

// Sweep seals orphans. See store.Shared.
func (s *Store) Sweep(ctx context.Context, node store.Node, grace time.Duration) (int, error) {
	var (
		count  int
		errs   []error
		spoilt = []string{} // not sealed, and passed over from then on
	)
	for limit := sweepRows; ; {
		ids, err := s.sweep(ctx, node, grace, limit, spoilt)
		switch {
		case err == nil && len(ids) == 0:
			_, err := s.pool.Exec(ctx, s.sql(pruneSQL), max(leaseKept, grace))
			if err != nil {
				errs = append(errs, failed(ctx, err, "prune leases"))
			}
			return count, errors.Join(errs...)
		case err == nil:
			count += len(ids)
		case len(ids) == 0 || ctx.Err() != nil:
			return count, errors.Join(append(errs, failed(ctx, err, "sweep"))...)
		case len(ids) > 1: // one of them spoils it for all
			limit = 1
		default:
			errs = append(errs, failed(ctx, err, "sweep %q", ids[0]))
			if spoilt = append(spoilt, ids[0]); len(spoilt) == sweepSpoilt {
				return count, errors.Join(errs...)
			}
			limit = sweepRows
		}
	}
}

// sweep seals a batch of orphans in one transaction, and answers which; of one
// that failed those that it tried to seal.
func (s *Store) sweep(ctx context.Context, node store.Node, grace time.Duration, limit int, but []string) (ids []string, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		seqs, err := s.lockOrphans(ctx, tx, node, grace, limit, but)
		if err != nil || len(seqs) == 0 {
			return err
		}
		for id := range seqs {
			ids = append(ids, id)
		}
		fold, err := s.folded(ctx, tx, ids, seqs)
		if err != nil {
			return err
		}
		return tx.SendBatch(ctx, fold).Close()
	})
	return ids, err
}

// lockOrphans answers the lengths of the orphans that are to be sealed together.
func (s *Store) lockOrphans(ctx context.Context, tx pgx.Tx, node store.Node, grace time.Duration, limit int, but []string) (map[string]int64, error) {
	found, err := tx.Query(ctx, s.sql(orphanedSQL), grace, limit, but, node.Name, node.Incarnation)
	if err != nil {
		return nil, err
	}
	var (
		seqs  = make(map[string]int64, limit)
		units int64
		id    string
		seq   int64
	)
	_, err = pgx.ForEachRow(found, []any{&id, &seq}, func() error {
		if units += seq; units <= sweepUnits || len(seqs) == 0 {
			seqs[id] = seq
		}
		return nil
	})
	return seqs, err
}

// folded answers the writes that seal orphans, which tx holds.
func (s *Store) folded(ctx context.Context, tx pgx.Tx, ids []string, seqs map[string]int64) (*pgx.Batch, error) {
	found, err := tx.Query(ctx, s.sql(textsSQL), ids)
	if err != nil {
		return nil, err
	}
	var (
		writes   = new(pgx.Batch)
		id, body string
		ends     []int64
		texts    []string
	)
	_, err = pgx.ForEachRow(found, []any{&id, &body, &ends, &texts}, func() error {
		text, _, err := rows.Stretch(rows.Pieces(0, body, ends, texts), 0, seqs[id])
		if _, hole := errors.AsType[*plane.HoleError](err); hole {
			writes.Queue(s.sql(brokenSQL), id)
			return nil
		}
		writes.Queue(s.sql(interruptedSQL), id, text, rows.Marks(text))
		return err
	})
	return writes, err
}
