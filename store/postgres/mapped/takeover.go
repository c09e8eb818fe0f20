package mapped

import (
	"context"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/pg"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// takeOverSQL: $1 id, $2 token, $3 node/incarnation, $4 rows.Earlier. It answers
// whether the row was taken over, whether its owner's lease lasts, and the row. The
// lease is locked as well, as by package postgres.
const takeOverSQL = `
	WITH found AS (
		SELECT {row}, coalesce({owned} AND {is owned}, false) AS named
		FROM {messages} m WHERE m.{id} = {key} FOR NO KEY UPDATE NOWAIT
	), lease AS (
		SELECT n.expires_at > clock_timestamp() AS lasts
		FROM found JOIN rillkeep.nodes n ON n.name = split_part(token, '/', 1) AND n.incarnation = split_part(token, '/', 2)
		FOR SHARE OF n NOWAIT
	), u AS (
		UPDATE {messages} m SET {host} = $3::text || '/' || (found.epoch + 1) || $4::text || found.seq
		FROM found WHERE m.{id} = {key} AND named AND NOT EXISTS (SELECT FROM lease WHERE lasts)
		RETURNING {row}
	)
	SELECT true, u.*, false FROM u
	UNION ALL
	SELECT false, seq, status, cancel, token, epoch, error, EXISTS (SELECT FROM lease WHERE lasts) FROM found WHERE NOT EXISTS (SELECT FROM u)`

// TakeOver makes a stream of an owner that is dead claim.Node's. See plane.Takeover.
// errors.ErrUnsupported without a host column.
func (s *Store) TakeOver(ctx context.Context, token string, claim plane.Claim) (plane.Row, error) {
	if s.has.Host == "" {
		return plane.Row{}, pg.Failed(ctx, errNoHost, "take %q over", claim.ID)
	}
	row, err := pg.Patiently(ctx, func() (plane.Row, error) { return s.takeOver(ctx, token, claim) })
	if err != nil {
		return plane.Row{}, pg.Failed(ctx, err, "take %q over", claim.ID)
	}
	row.Producer = store.Sound(claim.Producer) // the tables have none
	return row, nil
}

func (s *Store) takeOver(ctx context.Context, token string, claim plane.Claim) (row plane.Row, err error) {
	if !s.known(claim.ID) {
		return row, plane.ErrNotFound
	}
	var taken, lasts bool
	err = rows.Scan(s.pool.QueryRow(ctx, s.stmt.takeOver, claim.ID, token, claim.Node, rows.Earlier(token)), &row, &taken, &lasts)
	if err == nil && !taken {
		err = rows.JudgeTakeover(claim.Node, token, row, lasts)
	}
	return row, err
}
