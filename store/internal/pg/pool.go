// Package pg is what the stores in PostgreSQL have in common: how they connect,
// what they make of a row that is locked, and how a node's name is held.
package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Application is the application_name of connections whose URL gives none.
const Application = "rillkeep"

// defaults are session settings for connections whose URL does not set them. A
// call gives up at its context's deadline and cancels its statement; the other
// timeouts are for what the server would not hear of. lock_timeout bounds what
// NOWAIT does not: it is short, since who waits keeps a connection from others,
// and long enough for the locks that the server itself takes in passing.
var defaults = map[string]string{
	"application_name":                    Application,
	"statement_timeout":                   "30s",
	"lock_timeout":                        "100ms",
	"idle_in_transaction_session_timeout": "30s",
	"tcp_keepalives_idle":                 "10", // with the next two: the locks of a machine that is gone last half a minute
	"tcp_keepalives_interval":             "5",
	"tcp_keepalives_count":                "3",
}

// defaultConns is how many connections a pool has at most unless its URL has
// pool_max_conns: more do not make checkpoints faster.
const defaultConns = 8

// Pool connects to the database of url, a postgres:// URL or a keyword string as
// libpq takes them, with pgx's pool_* settings. No error shows the URL.
func Pool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	cfg, err := Parse(url)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	return pool, nil
}

// Parse is how Pool connects.
func Parse(url string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("open database: %s", withoutURL(err))
	}
	if !strings.Contains(url, "pool_max_conns") {
		cfg.MaxConns = defaultConns
	}
	for name, value := range defaults {
		if _, set := cfg.ConnConfig.RuntimeParams[name]; !set {
			cfg.ConnConfig.RuntimeParams[name] = value
		}
	}
	// A call whose context ends asks the server to stop its statement, so that
	// the row it holds is free for the repeat.
	cfg.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: time.Second}
	}
	return cfg, nil
}

// withoutURL is what pgx says of a malformed URL without the URL itself, in
// which it can't always tell where the password is.
func withoutURL(err error) string {
	text := err.Error()
	if cause := errors.Unwrap(err); cause != nil {
		text = strings.TrimSuffix(text, " ("+cause.Error()+")")
	}
	if at := strings.LastIndex(text, "`: "); at >= 0 {
		return "URL " + text[at+len("`: "):]
	}
	return "URL cannot be parsed"
}
