package pg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/store/feed"
)

// Notifications have transactions of their own: none is part of a write, which
// therefore neither waits for the lock that commits them one at a time, nor fails
// with a full queue.
const notifySQL = `SELECT pg_notify($1, message) FROM unnest($2::text[]) message`

// listenerName is the application_name of the connection that listens, unless its
// URL has one.
const listenerName = "rillkeep listener"

// Feed is the change feed: LISTEN and NOTIFY on a channel.
type Feed struct {
	pool    *pgxpool.Pool
	channel string
	listen  *pgx.ConnConfig // nil if there is no way to a session of one's own
}

// NewFeed returns the feed of a channel, heard beside connections like direct's;
// nil if there is no way to a session of one's own.
func NewFeed(pool *pgxpool.Pool, direct *pgx.ConnConfig, channel string) Feed {
	return Feed{pool: pool, channel: channel, listen: listenConfig(direct)}
}

// Notify sends messages to all who listen to the channel, in this order: all or
// none. Each has feed.MaxMessage bytes at the most.
func (f Feed) Notify(ctx context.Context, messages []string) error {
	if _, err := f.pool.Exec(ctx, notifySQL, f.channel, messages); err != nil {
		return Failed(ctx, err, "notify")
	}
	return nil
}

// Tell sends changes that are nobody's run: ends that were written for others. It
// is a hint like any other; where it can't be sent, followers find out by
// themselves.
func (f Feed) Tell(ctx context.Context, changes []feed.Change) {
	if messages := feed.Messages(changes); len(messages) > 0 {
		_ = f.Notify(ctx, messages)
	}
}

// Listen hears what is sent to the channel until ctx is done, over a connection
// beside the pool; see feed.Listen. It returns when the connection is closed.
func (f Feed) Listen(ctx context.Context, to feed.Listener) {
	if f.listen == nil { // behind a pooler, without a direct URL
		<-ctx.Done()
		return
	}
	feed.Listen(ctx, f.dial, to)
}

// dial begins to listen.
func (f Feed) dial(ctx context.Context) (feed.Session, error) {
	conn, err := pgx.ConnectConfig(ctx, f.listen)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	session := listening{conn}
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{f.channel}.Sanitize()); err != nil {
		session.Close()
		return nil, Failed(ctx, err, "listen")
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
	if set := cfg.RuntimeParams; set[key] == Application {
		set[key] = listenerName
	}
	atItsDeadline(cfg)
	return cfg
}
