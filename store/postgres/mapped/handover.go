package mapped

import (
	"context"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/internal/pg"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// The SQL of handing over, as that in sql.go.
const (
	// disownSQL: $1 id, $2 token, $3 session. The mark is rows.Mark's, of the
	// database's clock.
	disownSQL = `
		WITH found AS (
			SELECT {row}, {owned} AND m.{host} NOT LIKE '/%' AND m.{status} = 'streaming' AS fits,
				'/' || (extract(epoch FROM clock_timestamp()) * 1000000)::bigint || '.' || $3::bigint || '/' || {epoch} || {origins} AS mark
			FROM {messages} m WHERE m.{id} = {key} FOR NO KEY UPDATE NOWAIT
		), u AS (
			UPDATE {messages} m SET {host} = (SELECT mark FROM found) WHERE m.{id} = {key} AND (SELECT fits FROM found)
			RETURNING true
		)
		SELECT seq, status, cancel, CASE WHEN EXISTS (SELECT FROM u) THEN mark ELSE token END, epoch, error FROM found`

	// adoptSQL: $1 id, $2 mark, $3 node/incarnation. It answers whether the row was
	// adopted, and the row.
	adoptSQL = `
		WITH found AS (
			SELECT {row}, {owned} AND m.{host} LIKE '/%' AND m.{status} = 'streaming' AS fits,
				$3::text || '/' || {epoch} || {origins} AS adopter
			FROM {messages} m WHERE m.{id} = {key} FOR NO KEY UPDATE NOWAIT
		), u AS (
			UPDATE {messages} m SET {host} = (SELECT adopter FROM found) WHERE m.{id} = {key} AND (SELECT fits FROM found)
			RETURNING true
		), done AS (
			SELECT EXISTS (SELECT FROM u) AS done
		)
		SELECT done, seq, status, cancel, CASE WHEN done THEN adopter ELSE token END, epoch, error FROM found, done`

	// disownedSQL is pg.SweepSQL's Orphans for rows that were disowned: the mark says
	// when.
	disownedSQL = `
		SELECT m.{id}::text, coalesce(m.{seq}, 0)::bigint
		FROM {messages} m
		WHERE m.{status} = 'streaming' AND substring({owner} FROM '^/([0-9]{1,18})(?:[.][0-9]+)?/[0-9]{1,18}(?:/|$)')::bigint
				< extract(epoch FROM now() - $1::interval) * 1000000
			AND ` + pg.SteadySQL + ` AND m.{id}::text <> ALL ($3::text[])
		LIMIT $2 FOR NO KEY UPDATE OF m SKIP LOCKED`
)

// Disown gives up a stream for another node to adopt. See plane.Handover.
// errors.ErrUnsupported without a host column.
func (s *Store) Disown(ctx context.Context, id, token string, session int64) (plane.Row, error) {
	if s.has.Host == "" {
		return plane.Row{}, pg.Failed(ctx, errNoHost, "disown %q", id)
	}
	row, err := pg.Patiently(ctx, func() (plane.Row, error) { return s.row(ctx, s.stmt.disown, id, token, session) })
	if err != nil {
		return plane.Row{}, pg.Failed(ctx, err, "disown %q", id)
	}
	return row, nil
}

// Adopt makes a stream that was disowned the node's. See plane.Handover.
// errors.ErrUnsupported without a host column.
func (s *Store) Adopt(ctx context.Context, id, mark, node string) (plane.Row, error) {
	if s.has.Host == "" {
		return plane.Row{}, pg.Failed(ctx, errNoHost, "adopt %q", id)
	}
	row, err := pg.Patiently(ctx, func() (plane.Row, error) { return s.adopt(ctx, id, mark, node) })
	if err != nil {
		return plane.Row{}, pg.Failed(ctx, err, "adopt %q", id)
	}
	return row, nil
}

func (s *Store) adopt(ctx context.Context, id, mark, node string) (row plane.Row, err error) {
	if !s.known(id) {
		return row, plane.ErrNotFound
	}
	var adopted bool
	err = rows.Scan(s.pool.QueryRow(ctx, s.stmt.adopt, id, mark, node), &row, &adopted)
	if err == nil && !adopted {
		err = rows.JudgeAdoption(node, row)
	}
	return row, err
}
