// Package pg is what the stores in PostgreSQL have in common: how they connect,
// what they make of a row that is locked, how many slices are appended at once and
// orphans sealed, how a node's name and its lease are held, and the change feed.
package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/plane"
)

// LockTimeout is the lock_timeout of sessions whose URL gives none. It bounds what
// NOWAIT does not: it is short, since who waits keeps a connection from others, and
// long enough for the locks that the server itself takes in passing.
const LockTimeout = "20ms"

// defaults are session settings for connections whose URL does not set them. A
// call gives up at its context's deadline and cancels its statement; the other
// timeouts are for what the server would not hear of. In a stricter isolation one
// stream would fail for what is done to another.
var defaults = map[string]string{
	"default_transaction_isolation":       "read committed",
	"statement_timeout":                   "30s",
	"lock_timeout":                        LockTimeout,
	"idle_in_transaction_session_timeout": "30s",
	"tcp_keepalives_idle":                 "10", // with the next two: the locks of a machine that is gone last half a minute
	"tcp_keepalives_interval":             "5",
	"tcp_keepalives_count":                "3",
}

// What else the URL may say otherwise.
const (
	Application    = "rillkeep"      // application_name
	defaultConns   = 8               // pool_max_conns: more do not make checkpoints faster
	defaultConnect = 5 * time.Second // connect_timeout: who hangs in one keeps a place in the pool
)

// Open connects to the database of url, a postgres:// URL or a keyword string as
// libpq takes them, with pgx's pool_* settings. own is how to connect for a
// session of one's own: to the URL direct, which must lead to the same database,
// or, if that is "", to url; nil if that leads to a pooler that gives each
// transaction another session. No error shows a URL.
func Open(ctx context.Context, url, direct string) (pool *pgxpool.Pool, own *pgx.ConnConfig, err error) {
	own, err = ownWay(url, direct)
	if err != nil {
		return nil, nil, err
	}
	pool, err = connect(ctx, url, false)
	pooled := pooler(err)
	if err == nil {
		var lacks []string
		lacks, err = lacking(ctx, pool)
		if pooled = len(lacks) > 0; pooled || err != nil {
			pool.Close()
		}
	}
	if pooled {
		pool, err = connect(ctx, url, true)
		if err == nil {
			err = heeded(ctx, pool)
		}
	}
	switch {
	case err != nil:
		return nil, nil, err
	case direct != "":
		if err := same(ctx, pool, own); err != nil {
			pool.Close()
			return nil, nil, err
		}
	case pooled:
		own = nil
	}
	return pool, own, nil
}

// same makes sure that a direct way leads to the pool's database: a name that is
// taken, or a change that is heard, in another one is nobody's.
func same(ctx context.Context, pool *pgxpool.Pool, direct *pgx.ConnConfig) error {
	const which = "SELECT current_database(), pg_postmaster_start_time()"
	var here, there struct {
		database string
		started  time.Time
	}
	if err := pool.QueryRow(ctx, which).Scan(&here.database, &here.started); err != nil {
		return Failed(ctx, err, "look which database this is")
	}
	conn, err := pgx.ConnectConfig(ctx, direct)
	if err != nil {
		return Failed(ctx, err, "connect to database by its direct URL")
	}
	err = conn.QueryRow(ctx, which).Scan(&there.database, &there.started)
	if closed := conn.Close(ctx); err == nil {
		err = closed
	}
	switch {
	case err != nil:
		return Failed(ctx, err, "look where the direct URL leads")
	case here.database != there.database:
		return fmt.Errorf("%w: the direct URL leads to database %q, not to %q", plane.ErrConfig, there.database, here.database)
	case !here.started.Equal(there.started):
		return fmt.Errorf("%w: the direct URL leads to another server", plane.ErrConfig)
	}
	return nil
}

// bytewise is the encoding of a database that takes any bytes, and counts them
// where others count characters.
const bytewise = "SQL_ASCII"

func connect(ctx context.Context, url string, pooled bool) (*pgxpool.Pool, error) {
	cfg, err := parse(url, pooled)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	var encoding string
	err = pool.QueryRow(ctx, "SELECT getdatabaseencoding()", pgx.QueryExecModeExec).Scan(&encoding)
	switch {
	case err != nil:
		err = Failed(ctx, err, "connect to database")
	case encoding != "UTF8" && encoding != bytewise: // most characters have no place in it
		err = fmt.Errorf("%w: the database has the encoding %s, and must have UTF8: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0", plane.ErrConfig, encoding)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// ownWay is how to connect for a session of one's own.
func ownWay(url, direct string) (*pgx.ConnConfig, error) {
	cfg, err := parse(cmp.Or(direct, url), false)
	switch {
	case err == nil:
		return cfg.ConnConfig, nil
	case direct != "":
		return nil, fmt.Errorf("direct URL: %w", err)
	default:
		return nil, err
	}
}

// parse is the configuration of url. With a pooler that gives each transaction
// another session it is without settings of ours, and prepares no statement for
// later; what the URL itself asks for stays, and may be refused.
func parse(url string, pooled bool) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("%w: open database: %s", plane.ErrConfig, withoutURL(err))
	}
	if !strings.Contains(url, "pool_max_conns") {
		cfg.MaxConns = defaultConns
	}
	conn := cfg.ConnConfig
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = defaultConnect
	}
	conn.RuntimeParams["client_encoding"] = "UTF8" // a role may have another; poolers keep it
	if _, set := conn.RuntimeParams["application_name"]; !set {
		conn.RuntimeParams["application_name"] = Application
	}
	for name, value := range defaults {
		if _, set := conn.RuntimeParams[name]; !set && !pooled {
			conn.RuntimeParams[name] = value
		}
	}
	if pooled && conn.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		conn.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	// A call whose context ends asks the server to stop its statement, so that
	// the row it holds is free for the repeat. By way of a pooler it gives its
	// connection up, and pgx asks afterwards: of requests to stop that the answer
	// overtakes, and that are then given up themselves, PgBouncer 1.18 dies.
	if conn.BuildContextWatcherHandler = stopAndWait; pooled {
		conn.BuildContextWatcherHandler = giveUp
	}
	conn.OnPgError = func(_ *pgconn.PgConn, said *pgconn.PgError) bool { return usable(said) }
	fresh := new(freshness)
	cfg.AfterConnect, conn.Tracer = fresh.born, fresh
	return cfg, nil
}

// Patient reports whether a pool's sessions may wait longer than LockTimeout for a
// lock: their URL says so, or a pooler lets nobody say anything.
func Patient(pool *pgxpool.Pool) bool {
	return pool.Config().ConnConfig.RuntimeParams["lock_timeout"] != LockTimeout
}

// withoutURL is what pgx says of a malformed URL without the URL itself, in
// which it can't always tell where the password is. The cause may quote from it,
// unless it is about the files of TLS.
func withoutURL(err error) string {
	const aboutTLS = "failed to configure TLS"
	text, cause := err.Error(), errors.Unwrap(err)
	if cause != nil {
		text = strings.TrimSuffix(text, " ("+cause.Error()+")")
	}
	at := strings.LastIndex(text, "`: ")
	if at < 0 {
		return "URL cannot be parsed"
	}
	text = text[at+len("`: "):]
	if cause != nil && text == aboutTLS {
		text += ": " + cause.Error()
	}
	return "URL: " + text
}

// usable reports whether a connection is of use after an error: not one that the
// server ends, and not one to a server that takes no writes, such as a primary
// that has become a standby.
func usable(said *pgconn.PgError) bool {
	return !strings.EqualFold(said.Severity, "FATAL") && !demoted(said)
}

// demoted reports whether err says that the server takes no writes, as one that
// was the primary: a new connection may lead to its successor.
func demoted(err error) bool {
	const readOnly = "25006"
	said, ok := errors.AsType[*pgconn.PgError](err)
	return ok && said.Code == readOnly
}

// atItsDeadline gives a connection up when the context of a call ends, without
// asking the server to stop what it does.
func atItsDeadline(cfg *pgx.ConnConfig) { cfg.BuildContextWatcherHandler = giveUp }

func giveUp(conn *pgconn.PgConn) ctxwatch.Handler {
	return &pgconn.DeadlineContextWatcherHandler{Conn: conn.Conn()}
}

func stopAndWait(conn *pgconn.PgConn) ctxwatch.Handler {
	return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: time.Second}
}

// freshness lets go of a pool's connections when one of them is lost: after a
// failover all are, and each would fail a call to say so. It sees a pool's
// connections come and go.
type freshness struct{ generation atomic.Int64 }

// generation is where a connection keeps the generation it is of.
const generation = "rillkeep generation"

func (f *freshness) born(_ context.Context, conn *pgx.Conn) error {
	conn.PgConn().CustomData()[generation] = f.generation.Load()
	return nil
}

// TraceRelease sees a connection come back. Of one generation the first that is
// lost makes all of them go; those in use go when they come back.
func (f *freshness) TraceRelease(pool *pgxpool.Pool, data pgxpool.TraceReleaseData) {
	of, _ := data.Conn.PgConn().CustomData()[generation].(int64)
	if data.Conn.IsClosed() && f.generation.CompareAndSwap(of, of+1) {
		pool.Reset()
	}
}

// TraceQueryStart and TraceQueryEnd make freshness a tracer.
func (*freshness) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (*freshness) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// pooler reports whether err is a pooler's, which knows no session settings.
func pooler(err error) bool {
	const protocolViolation = "08P01"
	said, ok := errors.AsType[*pgconn.PgError](err)
	return ok && said.Code == protocolViolation && strings.Contains(said.Message, "unsupported startup parameter")
}

// broken reports whether the server refused what it would refuse again.
func broken(err error) bool {
	switch Class(err) {
	case "22", "23", "42": // data, constraints, names and rights
		return true
	default:
		return false
	}
}

// Class is the class of the server's error in err, the first two characters of its
// code; "" if err is none.
func Class(err error) string {
	said, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || len(said.Code) != 5 { // a pooler's may be of another length
		return ""
	}
	return said.Code[:2]
}

// OneRows reports whether err may be for what one row is, so that others of the
// same statement have none without it.
func OneRows(err error) bool {
	said, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || said.Severity == "FATAL" || said.Severity == "PANIC" {
		return false
	}
	switch Class(err) {
	case "", "08", "25", "28", "3D", "53", "57", "58": // of the connection or the server
		return false
	default: // a damaged row, a policy or a trigger of the application's may be the cause
		return true
	}
}
