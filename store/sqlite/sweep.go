package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"rillkeep.dev/rillkeep/store"
)

const (
	// nextOwnerSQL: ?1 beginning. The next token of a streaming row.
	nextOwnerSQL = `
		SELECT coalesce(host, '') FROM streams WHERE status = 'streaming' AND coalesce(host, '') >= ?1
		ORDER BY coalesce(host, '') LIMIT 1`

	leaseSQL = `SELECT expires_at FROM nodes WHERE name = ?1 AND incarnation = ?2`

	// ownedSQL: ?1 and ?2 the range of an owner's tokens, ?3 since when rows have
	// not changed.
	ownedSQL = `
		SELECT id, coalesce(host, '') FROM streams
		WHERE status = 'streaming' AND coalesce(host, '') >= ?1 AND coalesce(host, '') < ?2 AND updated_at < ?3`

	// orphanSQL: ?1 to ?3 as steadySQL has them, ?4 id, ?5 token, ?6 and ?7 name and
	// incarnation of the owner, ?8 since when its lease must be over. A step of the
	// clock that ends the leases of the living ends that of who asks as well.
	orphanSQL = `
		SELECT ` + steadySQL + ` AND EXISTS (
			SELECT 1 FROM streams s LEFT JOIN nodes n ON n.name = ?6 AND n.incarnation = ?7
			WHERE s.id = ?4 AND s.status = 'streaming' AND coalesce(s.host, '') = ?5
				AND (n.expires_at < ?8 OR n.name IS NULL AND s.updated_at < ?8))`
)

// owner is who has a row, by its token.
type owner struct{ name, incarnation string }

// ownerOf answers a token's owner, and where the tokens of the next one begin. One
// that is no token is an owner of its own.
func ownerOf(token string) (o owner, next string) {
	parts := strings.SplitN(token, "/", 3)
	if len(parts) < 3 {
		return owner{}, token + "\x01"
	}
	o = owner{parts[0], parts[1]}
	return o, o.name + "/" + o.incarnation + "0" // which follows the slash
}

// Sweep seals orphans, and forgets leases that have been over for long. See
// store.Shared.
func (s *Store) Sweep(ctx context.Context, node store.Node, grace time.Duration) (count int, err error) {
	err = s.do(func() error {
		count, err = s.sweep(ctx, node, grace)
		return err
	})
	return count, err
}

func (s *Store) sweep(ctx context.Context, node store.Node, grace time.Duration) (int, error) {
	steady, err := s.steady(ctx, node)
	if err != nil || !steady {
		return 0, wrap("sweep", err)
	}
	orphans, err := s.ofTheDead(ctx, now()-grace.Microseconds())
	if err != nil {
		return 0, wrap("sweep", err)
	}
	count, err := s.sealEach(ctx, "sweep", orphans, func(stmt statements, o orphan) (done bool, err error) {
		now := now()
		of, _ := ownerOf(o.token)
		is := stmt.conn.QueryRowContext(context.Background(), orphanSQL,
			node.Name, node.Incarnation, now, o.id, o.token, of.name, of.incarnation, now-grace.Microseconds())
		if err := is.Scan(&done); err != nil || !done {
			return false, err // its owner is back, or another was faster
		}
		return stmt.interruptOne(o)
	})
	if ctx.Err() == nil {
		err = errors.Join(err, s.prune(ctx, grace))
	}
	return count, err
}

func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// ofTheDead answers the streaming rows of owners whose lease was over at a time, or
// that have none and have not changed since. Owners are looked up one after the
// other, so that the rows of those that live cost nothing.
func (s *Store) ofTheDead(ctx context.Context, at int64) (orphans []orphan, err error) {
	for next := ""; ; {
		var token string
		err := s.reads.QueryRowContext(ctx, nextOwnerSQL, next).Scan(&token)
		if errors.Is(err, sql.ErrNoRows) {
			return orphans, nil
		}
		if err != nil {
			return nil, err
		}
		var of owner
		of, next = ownerOf(token)
		unchanged, expires := at, int64(0)
		switch err := s.reads.QueryRowContext(ctx, leaseSQL, of.name, of.incarnation).Scan(&expires); {
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return nil, err
		case expires >= at:
			continue
		default:
			unchanged = forEver
		}
		rows, err := collect(scanOrphan)(s.reads.QueryContext(ctx, ownedSQL, token, next, unchanged))
		if err != nil {
			return nil, err
		}
		orphans = append(orphans, rows...)
	}
}

// forEver is after all times.
const forEver = 1<<63 - 1
