package main

import (
	"context"
	"database/sql"
	"regexp"
	"strings"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

func TestOfSeveralThatMigrateOneDoesAndTheOthersWait(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	results := make([]result, 3)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() { results[i] = command(t.Context(), nil, "migrate", "--database", url) })
	}
	all.Wait()
	line := regexp.MustCompile(`^schema rillkeep is at version [1-9][0-9]*(, and was at 0)?\n$`)
	did := 0
	for _, got := range results {
		if got.code != 0 || got.err != "" || !line.MatchString(got.out) {
			t.Errorf("%+v", got)
		}
		if strings.Contains(got.out, "was at") {
			did++
		}
	}
	if did != 1 {
		t.Errorf("%d of them migrated: %+v", did, results)
	}
	// And a node finds nothing to do.
	_, server := serve(t, "--database", url)
	at(t, server, strings.NewReader("text"), "push", "m1").want(t, 0, "", "")
	command(t.Context(), nil, "migrate", "--database", url).want(t, 0, strings.ReplaceAll(results[0].out, ", and was at 0", ""), "")
}

func TestMigrateRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	if got := command(t.Context(), nil, "migrate", "--database", url); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "INSERT INTO rillkeep.versions (version) VALUES (99)"); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for name, tt := range map[string]struct {
		ctx  context.Context
		args []string
		code int
		want string
	}{
		"a newer release's tables": {t.Context(), []string{"--database", url}, exitFailure, "newer release: it is at version 99"},
		"no database":              {t.Context(), nil, exitUsage, "--database"},
		"a database not here":      {t.Context(), []string{"--database", "postgres://u:hush@127.0.0.1:1/x"}, exitFailure, "connection refused"},
		"a damaged URL":            {t.Context(), []string{"--database", "postgres://u:hush@127.0.0.1:port/x"}, exitFailure, "open database"},
		"no time":                  {ended, []string{"--database", url}, exitSignal, ""},
	} {
		got := command(tt.ctx, nil, append([]string{"migrate"}, tt.args...)...)
		if got.code != tt.code || !strings.Contains(got.err, tt.want) || strings.Contains(got.err, "hush") || got.out != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
