package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
	"rillkeep.dev/rillkeep/store/postgres/pgtest/server"
)

func supersede(t *testing.T, s store.Named, node, incarnation string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return s.Supersede(ctx, node, incarnation)
}

func TestANameIsOneSchemas(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	for _, schema := range []string{"a", "b"} {
		s, err := postgres.Open(t.Context(), url, postgres.Config{Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pgtest.Close(t, s) })
		if err := supersede(t, s, "n1", "boot1"); err != nil {
			t.Errorf("schema %q: %v", schema, err)
		}
	}
}

// endNames ends the session that holds a name.
func endNames(t testing.TB, db *pgxpool.Pool) {
	t.Helper()
	var ended bool
	err := db.QueryRow(t.Context(), `
		SELECT pg_terminate_backend(pid, 60000) FROM pg_locks
		WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&ended)
	if err != nil || !ended {
		t.Fatalf("%v, %v", ended, err)
	}
}

// As of a process that was killed, or of a network that broke.
func TestANameIsFreeWhenItsSessionHasEnded(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	first, second, db := open(t, url), open(t, url), pgtest.Pool(t, url)
	for _, s := range []store.Named{first, first, second} { // lost and taken anew; lost to another
		if err := supersede(t, s, "n1", "boot1"); err != nil {
			t.Fatal(err)
		}
		endNames(t, db)
	}
	if err := supersede(t, second, "n1", "boot2"); err != nil {
		t.Fatal(err)
	}
	if err := supersede(t, first, "n1", "boot1"); !errors.Is(err, store.ErrNameInUse) {
		t.Errorf("who had it before: %v", err)
	}
}

func TestADirectURLThatLeadsElsewhereIsRefused(t *testing.T) {
	here := pgtest.URL(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	other, err := server.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Stop() })
	for name, ways := range map[string][2]string{
		"another database": {here, pgtest.URL(t)},
		"another server":   {postgresOf(t, here), other.URL()},
	} {
		_, err := postgres.Open(ctx, ways[0], postgres.Config{Schema: "elsewhere", DirectURL: ways[1]})
		if !errors.Is(err, plane.ErrConfig) || !strings.Contains(err.Error(), name[len("another "):]) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// postgresOf is the URL of a server's own database.
func postgresOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/postgres"
	return u.String()
}
