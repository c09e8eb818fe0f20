package postgres

import (
	"context"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/pg"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// takeOverSQL: $1 id, $2 token, $3 node/incarnation, $4 rows.Earlier, $5 producer. It
// answers whether the row was taken over, whether its owner's lease lasts, and the
// row. The lease is locked as well: of a renewal and a takeover at once each sees
// what the other did, so that an owner that looks after its streams once it has
// renewed finds those that it lost.
const takeOverSQL = `
	WITH found AS (
		SELECT seq, status, cancel, host, epoch, error, producer, coalesce(host = $2 AND host ~ '^[^/]+/[^/]+/' AND status = 'streaming', false) AS named
		FROM rillkeep.streams WHERE id = $1 FOR NO KEY UPDATE NOWAIT
	), lease AS (
		SELECT n.expires_at > clock_timestamp() AS lasts
		FROM found JOIN rillkeep.nodes n ON n.name = split_part(host, '/', 1) AND n.incarnation = split_part(host, '/', 2)
		FOR SHARE OF n NOWAIT
	), u AS (
		UPDATE rillkeep.streams s
		SET host = $3::text || '/' || (found.epoch + 1) || $4::text || found.seq, epoch = found.epoch + 1,
			producer = nullif($5::text, ''), updated_at = now()
		FROM found WHERE s.id = $1 AND named AND NOT EXISTS (SELECT FROM lease WHERE lasts)
		RETURNING s.seq, s.status, s.cancel, s.host, s.epoch, s.error, s.producer
	)
	SELECT true, ` + rows.Claimed + `, false FROM u
	UNION ALL
	SELECT false, ` + rows.Claimed + `, EXISTS (SELECT FROM lease WHERE lasts) FROM found WHERE NOT EXISTS (SELECT FROM u)`

// TakeOver makes a stream of an owner that is dead claim.Node's. See plane.Takeover.
func (s *Store) TakeOver(ctx context.Context, token string, claim plane.Claim) (plane.Row, error) {
	row, err := pg.Patiently(ctx, func() (row plane.Row, err error) {
		var taken, lasts bool
		err = rows.Scan(
			s.pool.QueryRow(ctx, s.stmt.takeOver, claim.ID, token, claim.Node, rows.Earlier(token), store.Sound(claim.Producer)),
			&row, &taken, &row.Producer, &lasts)
		if err == nil && !taken {
			err = rows.JudgeTakeover(claim.Node, token, row, lasts)
		}
		return row, err
	})
	if err != nil {
		return plane.Row{}, pg.Failed(ctx, err, "take %q over", claim.ID)
	}
	return row, nil
}
