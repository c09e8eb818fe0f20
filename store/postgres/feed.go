package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"rillkeep.dev/rillkeep/store/feed"
	"rillkeep.dev/rillkeep/store/internal/pg"
)

// The change feed is LISTEN and NOTIFY on a channel that has the schema's name.
// Notifications have transactions of their own: none is part of a write, which
// therefore neither waits for the lock that commits them one at a time, nor fails
// with a full queue.

const (
	notifySQL = `SELECT pg_notify($1, message) FROM unnest($2::text[]) message`

	// cancelledSQL: $1 beginning of the token, $2 ids after.
	cancelledSQL = `
		SELECT id FROM rillkeep.streams
		WHERE cancel AND status = 'streaming' AND id > $2 AND starts_with(host, $1)
		ORDER BY id LIMIT 1000`
)

// listenerName is the application_name of the connection that listens, unless its
// URL has one.
const listenerName = "rillkeep listener"

// goodbyeTime bounds the end of a connection beside the pool.
const goodbyeTime = time.Second

// Notify sends messages to all who listen to the store's schema, in this order:
// all or none. Each has feed.MaxMessage bytes at the most.
func (s *Store) Notify(ctx context.Context, messages []string) error {
	if _, err := s.pool.Exec(ctx, notifySQL, s.schema, messages); err != nil {
		return failed(ctx, err, "notify")
	}
	return nil
}

// Listen hears what is sent to the store's schema until ctx is done, over a
// connection beside the pool; see feed.Listen. It returns when the connection is
// closed.
func (s *Store) Listen(ctx context.Context, to feed.Listener) {
	if s.listen == nil { // behind a pooler, without a direct URL
		<-ctx.Done()
		return
	}
	feed.Listen(ctx, s.dial, to)
}

// dial begins to listen.
func (s *Store) dial(ctx context.Context) (feed.Session, error) {
	conn, err := pgx.ConnectConfig(ctx, s.listen)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	session := listening{conn}
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{s.schema}.Sanitize()); err != nil {
		session.Close()
		return nil, failed(ctx, err, "listen")
	}
	return session, nil
}

// listening is a connection that listens to one channel.
type listening struct{ conn *pgx.Conn }

func (s listening) Receive(ctx context.Context) (string, error) {
	n, err := s.conn.WaitForNotification(ctx)
	if err != nil {
		return "", err
	}
	return n.Payload, nil
}

func (s listening) Ping(ctx context.Context) error { return s.conn.Ping(ctx) }

func (s listening) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeTime)
	defer cancel()
	_ = s.conn.Close(ctx)
}

// listenConfig is how to connect in order to listen, beside connections like
// direct's; nil if there is no way to a session of one's own. A wait that ends has
// no statement to cancel.
func listenConfig(direct *pgx.ConnConfig) *pgx.ConnConfig {
	if direct == nil {
		return nil
	}
	cfg := direct.Copy()
	const key = "application_name"
	if set := cfg.RuntimeParams; set[key] == pg.Application {
		set[key] = listenerName
	}
	cfg.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: conn.Conn()}
	}
	return cfg
}

// Cancelled answers the streams that node, a node/incarnation, has live and that
// were asked to stop, in the order of their ids. It costs as much as there are of
// those, of all nodes.
func (s *Store) Cancelled(ctx context.Context, node string) (ids []string, err error) {
	for after := ""; ; after = ids[len(ids)-1] {
		found, err := s.pool.Query(ctx, s.sql(cancelledSQL), node+"/", after)
		if err != nil {
			return nil, failed(ctx, err, "find cancelled streams")
		}
		page, err := pgx.CollectRows(found, pgx.RowTo[string])
		if err != nil {
			return nil, failed(ctx, err, "find cancelled streams")
		}
		ids = append(ids, page...)
		if len(page) < 1000 {
			return ids, nil
		}
	}
}
