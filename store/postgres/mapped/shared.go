package mapped

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/feed"
	"rillkeep.dev/rillkeep/store/internal/pg"
	"rillkeep.dev/rillkeep/store/postgres"
)

// What several nodes share. Their leases are in Rillkeep's own schema, and only
// there for tables with a host column: without one no row says whose it is, and
// Renew, Release, Nodes and Sweep answer errors.ErrUnsupported.

// schema is where the leases are.
const schema = "rillkeep"

var errNoHost = fmt.Errorf("%w: the message table has no column for host", errors.ErrUnsupported)

// rightsSQL answers what the role may: look into the schema, which is NULL if there
// is none, and at its version, and use the leases; and what it is called.
const rightsSQL = `
	SELECT has_schema_privilege(n.oid, 'USAGE'), coalesce(has_table_privilege(v.oid, 'SELECT'), false),
		coalesce((SELECT bool_and(has_table_privilege(l.oid, wanted)) FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) wanted), true),
		quote_ident(current_user)
	FROM (SELECT to_regnamespace('rillkeep') AS oid) n
		LEFT JOIN pg_class v ON v.relnamespace = n.oid AND v.relname = 'versions'
		LEFT JOIN pg_class l ON l.relnamespace = n.oid AND l.relname = 'nodes'`

// migrate makes the tables of leases, as postgres.Open does, where they are not
// there yet.
func (s *Store) migrate(ctx context.Context, url string) error {
	_, err := postgres.Migrate(ctx, url, postgres.Config{Schema: schema})
	if err != nil && !denied(err) {
		return err
	}
	var there *bool
	var versions, nodes bool
	var role string
	if err := s.pool.QueryRow(ctx, rightsSQL).Scan(&there, &versions, &nodes, &role); err != nil {
		return pg.Failed(ctx, err, "look at the leases of nodes")
	}
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: the leases of nodes are in schema %s, and role %s may not "+format, append([]any{plane.ErrConfig, schema, role}, args...)...)
	}
	switch {
	case there != nil && (!*there || !versions):
		return refuse("look there: GRANT USAGE ON SCHEMA %s TO %s; GRANT SELECT ON ALL TABLES IN SCHEMA %[4]s TO %[5]s", schema, role)
	case err != nil:
		return refuse("make it, or bring it up to this release: run `rillkeep migrate` as one that may (%w)", err)
	case !nodes:
		return refuse("use them: GRANT SELECT, INSERT, UPDATE, DELETE ON %s.nodes TO %s", schema, role)
	}
	return nil
}

// denied reports whether the server said that a right is missing.
func denied(err error) bool {
	const insufficientPrivilege = "42501"
	said, ok := errors.AsType[*pgconn.PgError](err)
	return ok && said.Code == insufficientPrivilege
}

// Renew makes a node's lease last ttl from now on. See store.Shared.
func (s *Store) Renew(ctx context.Context, node store.Node, ttl time.Duration) (since time.Time, err error) {
	if s.has.Host == "" {
		return time.Time{}, errNoHost
	}
	if err := s.name.Hold(ctx); err != nil { // its session may have been lost
		return time.Time{}, pg.Failed(ctx, err, "hold the name of %q", node.Name)
	}
	return s.leases.Renew(ctx, node, ttl)
}

// Release gives up a node's lease. See store.Shared.
func (s *Store) Release(ctx context.Context, node store.Node) error {
	if s.has.Host == "" {
		return errNoHost
	}
	return s.leases.Release(ctx, node)
}

// Nodes answers those whose lease lasts. See store.Shared.
func (s *Store) Nodes(ctx context.Context) ([]store.Node, error) {
	if s.has.Host == "" {
		return nil, errNoHost
	}
	return s.leases.Nodes(ctx)
}

// DeleteEnded answers errors.ErrUnsupported: messages are the application's to
// delete.
func (s *Store) DeleteEnded(context.Context, time.Duration) (int, error) {
	return 0, fmt.Errorf("delete ended streams: %w: messages are the application's", errors.ErrUnsupported)
}

// Notify sends messages to all who listen to the message table's channel, in this
// order: all or none. Each has feed.MaxMessage bytes at the most.
func (s *Store) Notify(ctx context.Context, messages []string) error {
	return s.feed.Notify(ctx, messages)
}

// Listen hears what is sent to the message table's channel until ctx is done, over
// a connection beside the pool; see feed.Listen. It returns when the connection is
// closed.
func (s *Store) Listen(ctx context.Context, to feed.Listener) { s.feed.Listen(ctx, to) }

// channel is where changes of a message table are told: not where those of others
// are, whose streams may have the same ids.
func channel(t *table) string {
	name := schema + "." + t.Schema + "." + t.Name
	if len(name) > pg.MaxName {
		sum := sha256.Sum256([]byte(t.sql()))
		name = schema + "." + hex.EncodeToString(sum[:16])
	}
	return name
}

// Cancelled answers the streams that node, a node/incarnation, has live and that
// were asked to stop; without a host column those that any node has.
// errors.ErrUnsupported where there is no column for cancel.
func (s *Store) Cancelled(ctx context.Context, node string) ([]string, error) {
	if s.has.Cancel == "" {
		return nil, fmt.Errorf("find cancelled streams: %w: %w", errors.ErrUnsupported, store.ErrNoCancel)
	}
	found, err := s.pool.Query(ctx, s.stmt.cancelled, node+"/")
	if err != nil {
		return nil, pg.Failed(ctx, err, "find cancelled streams")
	}
	ids, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		return nil, pg.Failed(ctx, err, "find cancelled streams")
	}
	return ids, nil
}
