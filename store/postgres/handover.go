package postgres

import (
	"context"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/internal/pg"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

const (
	// originsSQL is what host has after its epoch.
	originsSQL = `coalesce(substring(host FROM '^[^/]*/[^/]*/[^/]*(/.*)'), '')`

	// disownSQL: $1 id, $2 token, $3 session. The mark is rows.Mark's, of the
	// database's clock.
	disownSQL = `
		WITH found AS (
			SELECT seq, status, cancel, host, epoch, error, host = $2 AND host NOT LIKE '/%' AND status = 'streaming' AS fits,
				'/' || (extract(epoch FROM clock_timestamp()) * 1000000)::bigint || '.' || $3::bigint || '/' || epoch || ` + originsSQL + ` AS mark
			FROM rillkeep.streams WHERE id = $1 FOR NO KEY UPDATE NOWAIT
		), u AS (
			UPDATE rillkeep.streams SET host = (SELECT mark FROM found), updated_at = now() WHERE id = $1 AND (SELECT fits FROM found)
		)
		SELECT ` + rows.Columns + `
		FROM (SELECT seq, status, cancel, CASE WHEN fits THEN mark ELSE host END AS host, epoch, error FROM found) r`

	// adoptSQL: $1 id, $2 mark, $3 node/incarnation. It answers whether the row was
	// adopted, and the row.
	adoptSQL = `
		WITH found AS (
			SELECT seq, status, cancel, host, epoch, error, producer, host = $2 AND host LIKE '/%' AND status = 'streaming' AS fits,
				$3::text || '/' || epoch || ` + originsSQL + ` AS adopter
			FROM rillkeep.streams WHERE id = $1 FOR NO KEY UPDATE NOWAIT
		), u AS (
			UPDATE rillkeep.streams SET host = (SELECT adopter FROM found), updated_at = now() WHERE id = $1 AND (SELECT fits FROM found)
		)
		SELECT coalesce(fits, false), ` + rows.Claimed + `
		FROM (SELECT fits, seq, status, cancel, CASE WHEN fits THEN adopter ELSE host END AS host, epoch, error, producer FROM found) r`
)

// Disown gives up a stream for another node to adopt. See plane.Handover.
func (s *Store) Disown(ctx context.Context, id, token string, session int64) (plane.Row, error) {
	row, err := pg.Patiently(ctx, func() (plane.Row, error) { return s.row(ctx, s.stmt.disown, id, token, session) })
	if err != nil {
		return plane.Row{}, pg.Failed(ctx, err, "disown %q", id)
	}
	return row, nil
}

// Adopt makes a stream that was disowned the node's. See plane.Handover.
func (s *Store) Adopt(ctx context.Context, id, mark, node string) (plane.Row, error) {
	row, err := pg.Patiently(ctx, func() (row plane.Row, err error) {
		var adopted bool
		err = rows.Scan(s.pool.QueryRow(ctx, s.stmt.adopt, id, mark, node), &row, &adopted, &row.Producer)
		if err == nil && !adopted {
			err = rows.JudgeAdoption(node, row)
		}
		return row, err
	})
	if err != nil {
		return plane.Row{}, pg.Failed(ctx, err, "adopt %q", id)
	}
	return row, nil
}
