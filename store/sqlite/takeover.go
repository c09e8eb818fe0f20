package sqlite

import (
	"context"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// lastsSQL: ?1 name, ?2 incarnation, ?3 now.
const lastsSQL = `SELECT EXISTS (SELECT 1 FROM nodes WHERE name = ?1 AND incarnation = ?2 AND expires_at > ?3)`

// TakeOver makes a stream of an owner that is dead claim.Node's. See plane.Takeover.
func (s *Store) TakeOver(ctx context.Context, token string, claim plane.Claim) (plane.Row, error) {
	return s.change(ctx, "take over", claim.ID, func(stmt statements) (plane.Row, error) {
		row, err := stmt.rowWithProducer(claim.ID)
		if err != nil {
			return row, err
		}
		lasts, err := stmt.lasts(row.Token)
		switch {
		case err != nil:
			return row, err
		case lasts || !rows.Takes(token, row):
			return row, rows.JudgeTakeover(claim.Node, token, row, lasts)
		}
		if _, err := stmt.taken.Exec(claim.ID, rows.Taken(claim.Node, row), now(), store.Sound(claim.Producer)); err != nil {
			return plane.Row{}, err
		}
		return stmt.rowWithProducer(claim.ID)
	})
}

// lasts reports whether the lease of a token's owner does.
func (s statements) lasts(token string) (yes bool, err error) {
	of, _ := ownerOf(token)
	err = s.conn.QueryRowContext(context.Background(), lastsSQL, of.name, of.incarnation, now()).Scan(&yes)
	return yes, err
}
