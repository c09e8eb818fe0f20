//go:build unix

package pgtest_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

func TestAPgBouncerThatEndsIsStartedAgain(t *testing.T) {
	t.Parallel()
	database, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	user, err := pgx.ParseConfig(database.String())
	if err != nil {
		t.Fatal(err)
	}
	pooled := pgtest.Bouncer(t, database.String(), "admin_users = "+user.User)
	console, err := url.Parse(pooled)
	if err != nil {
		t.Fatal(err)
	}
	console.Path, console.RawQuery = "/pgbouncer", "sslmode=disable&default_query_exec_mode=simple_protocol"
	conn, err := pgx.Connect(t.Context(), console.String())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Exec(t.Context(), "SHUTDOWN") // it answers by hanging up
	for limit := time.After(30 * time.Second); ; {
		conn, err := pgx.Connect(t.Context(), pooled)
		if err == nil {
			_ = conn.Close(t.Context())
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-limit:
			t.Fatalf("it is not: %v", err)
		}
	}
}
