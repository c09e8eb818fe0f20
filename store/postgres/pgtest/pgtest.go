// Package pgtest gives tests a real PostgreSQL: that of RILLKEEP_TEST_POSTGRES,
// or a private server from the binaries that are installed here.
package pgtest

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/store/postgres/pgtest/server"
)

// Env names the environment variable with the URL of a server whose role may
// create databases.
const Env = "RILLKEEP_TEST_POSTGRES"

// patience bounds whatever a test asks of the server on the side.
const patience = time.Minute

// forTests are settings of the private server: it survives no power failure.
var forTests = []string{"fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=300"}

// shared starts the private server of this test binary at the first test that
// needs one, and holds on to it: it ends with the process, see Start.
var shared = sync.OnceValues(func() (*server.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return server.Start(ctx, forTests...)
})

// URL answers the URL of an empty database that is dropped when the test ends.
// It fails the test where there is no PostgreSQL.
func URL(tb testing.TB) string {
	tb.Helper()
	own := os.Getenv(Env)
	if own == "" {
		s, err := shared()
		if err != nil {
			tb.Fatalf("%v; or else set %s to a postgres:// URL whose role may create databases", err, Env)
		}
		own = s.URL()
	}
	name := "rillkeep_" + strings.ToLower(rand.Text())
	if err := manage(own, "CREATE DATABASE "+name); err != nil {
		tb.Fatalf("create a database for the test: %v", err)
	}
	tb.Cleanup(func() {
		if err := manage(own, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			tb.Errorf("drop the test's database: %v", err)
		}
	})
	return withDatabase(tb, own, name)
}

// manager is the session that makes and drops databases: a new one takes several
// times as long for a first look at all of a database's pages.
var manager struct {
	sync.Mutex
	conn *pgx.Conn
}

// manage runs one statement in the server's own database, one at a time.
func manage(url, sql string) error {
	manager.Lock()
	defer manager.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if manager.conn == nil || manager.conn.IsClosed() {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		manager.conn = conn
	}
	_, err := manager.conn.Exec(ctx, sql)
	return err
}

// admin runs one statement in the server's own database.
func admin(url, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	if closed := conn.Close(ctx); err == nil {
		err = closed
	}
	return err
}

func withDatabase(tb testing.TB, address, name string) string {
	tb.Helper()
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" {
		tb.Fatalf("%s must be a postgres:// URL", Env)
	}
	u.Path = "/" + name
	return u.String()
}

// Exec runs statements on a connection of their own.
func Exec(tb testing.TB, url, sql string) {
	tb.Helper()
	if err := admin(url, sql); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// Terminate ends the sessions that stores have in a URL's database, and returns
// when they have ended.
func Terminate(tb testing.TB, url string) {
	tb.Helper()
	Exec(tb, url, `SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'rillkeep'`)
}
