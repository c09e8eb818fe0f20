package postgres_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

func TestSeveralNodesMigrateAtOnce(t *testing.T) {
	t.Parallel()
	url, other := pgtest.URL(t), pgtest.URL(t)
	done, err := postgres.Migrate(t.Context(), other, postgres.Config{})
	if err != nil || done.From != 0 || done.To == 0 || done.Schema != "rillkeep" {
		t.Errorf("alone: %+v, %v", done, err)
	}
	if again, err := postgres.Migrate(t.Context(), other, postgres.Config{}); err != nil || again.From != done.To || again.To != done.To {
		t.Errorf("again: %+v, %v", again, err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			s, err := postgres.Open(t.Context(), url, postgres.Config{})
			if err != nil {
				t.Error(err)
				return
			}
			pgtest.Close(t, s)
		})
	}
	all.Wait()
	var versions int
	if err := pgtest.Pool(t, url).QueryRow(t.Context(), "SELECT count(*) FROM rillkeep.versions").Scan(&versions); err != nil || versions != done.To {
		t.Errorf("%d migrations were applied (%v)", versions, err)
	}
}

func TestANewerReleasesTablesAreRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	open(t, url)
	if _, err := pgtest.Pool(t, url).Exec(t.Context(), "INSERT INTO rillkeep.versions VALUES (99)"); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Open(t.Context(), url, postgres.Config{}); !errors.Is(err, store.ErrNewerSchema) {
		t.Errorf("got %v", err)
	}
	if _, err := postgres.Migrate(t.Context(), url, postgres.Config{}); !errors.Is(err, store.ErrNewerSchema) {
		t.Errorf("migrate: %v", err)
	}
}

func TestSchemasAreApart(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	for _, schema := range []string{"", `odd "name".x`} {
		s, err := postgres.Open(t.Context(), url, postgres.Config{Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		if row := claim(t, s, "s"); row.Epoch != 1 {
			t.Errorf("schema %q: %+v", schema, row)
		}
		pgtest.Close(t, s)
	}
}

// Tables that another role made need no more than the rights to use them.
func TestARoleWithoutTheRightToCreateServes(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	open(t, url)
	s, err := postgres.Open(t.Context(), worker(t, pgtest.Pool(t, url)), postgres.Config{})
	if err != nil {
		t.Fatal(err)
	}
	claim(t, s, "s")
	pgtest.Close(t, s)
}

// worker makes a role that may use the tables, and answers how to connect as it.
func worker(t *testing.T, db *pgxpool.Pool) string {
	t.Helper()
	as, role := pgtest.Role(t, db)
	exec(t, db, "GRANT USAGE ON SCHEMA rillkeep TO "+role)
	exec(t, db, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA rillkeep TO "+role)
	return as
}

func TestNoErrorShowsAPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://u:s3cr3t@127.0.0.1:1/db?connect_timeout=1", "postgres://u:s3cr3t@host:bad/db", "postgres://u:s3/cr3t@host/db",
		"postgres://u:a@s3cr3t@host:bad/db", "postgres://u:%zzs3cr3t@host/db", "postgres://u:s3cr3t@host/db?pool_max_conns=many",
		"host=127.0.0.1 port=bad password = 's3cr3t x'", "u:s3cr3t@host", "postgres://u:s3cr3t`: x@host:bad/db",
	} {
		_, err := postgres.Open(t.Context(), url, postgres.Config{})
		if err == nil || strings.Contains(err.Error(), "cr3t") {
			t.Errorf("%s: got %v", url, err)
		}
	}
}

func TestAnUnreachableDatabaseFailsTheOpenInTime(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := postgres.Open(ctx, "host=/nowhere user=u dbname=d", postgres.Config{}); err == nil {
		t.Error("no error")
	}
}

func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	for suffix, want := range map[string]string{"": "rillkeep 30s 20ms", "&application_name=mine&statement_timeout=5s": "mine 5s 20ms"} {
		s := open(t, url+suffix)
		if got := postgres.Settings(t, s); got != want {
			t.Errorf("%q: got %q, want %q", suffix, got, want)
		}
	}
}
