// Package pgtest gives tests a real PostgreSQL: that of RILLKEEP_TEST_POSTGRES,
// or a private server from the binaries that are installed here.
package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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
var shared = sync.OnceValues(func() (*Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return Start(ctx, forTests...)
})

// URL answers the URL of an empty database that is dropped when the test ends.
// It fails the test where there is no PostgreSQL.
func URL(tb testing.TB) string {
	tb.Helper()
	server := os.Getenv(Env)
	if server == "" {
		s, err := shared()
		if err != nil {
			tb.Fatal(err)
		}
		server = s.URL()
	}
	name := "rillkeep_" + strings.ToLower(rand.Text())
	if err := admin(server, "CREATE DATABASE "+name); err != nil {
		tb.Fatalf("create a database for the test: %v", err)
	}
	tb.Cleanup(func() {
		if err := admin(server, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			tb.Errorf("drop the test's database: %v", err)
		}
	})
	return withDatabase(tb, server, name)
}

// admin runs one statement in the server's own database.
func admin(server, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	if closed := conn.Close(ctx); err == nil {
		err = closed
	}
	return err
}

func withDatabase(tb testing.TB, server, name string) string {
	tb.Helper()
	u, err := url.Parse(server)
	if err != nil || u.Scheme == "" {
		tb.Fatalf("%s must be a postgres:// URL", Env)
	}
	u.Path = "/" + name
	return u.String()
}

// socketURL is the URL of a server that listens in folder dir, for a role that
// may do all.
func socketURL(dir string, settings []string) string {
	u := fmt.Sprintf("postgres://%s@/postgres?host=%s", superuser, url.QueryEscape(dir))
	for _, setting := range settings {
		if port, found := strings.CutPrefix(setting, "port="); found {
			u += "&port=" + port
		}
	}
	return u
}

// Exec runs statements on a connection of their own.
func Exec(tb testing.TB, server, sql string) {
	tb.Helper()
	if err := admin(server, sql); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// Terminate ends the sessions that stores have in a URL's database, and returns
// when they have ended.
func Terminate(tb testing.TB, server string) {
	tb.Helper()
	Exec(tb, server, `SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'rillkeep'`)
}
