package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Pool answers connections to a database, which are closed when the test ends.
func Pool(tb testing.TB, url string) *pgxpool.Pool {
	tb.Helper()
	db, err := pgxpool.New(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(db.Close)
	return db
}

// Close closes a store, which tests' contexts do not live to see.
func Close(tb testing.TB, s interface{ Close(context.Context) error }) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		tb.Errorf("close: %v", err)
	}
}

// Role makes a role that may do nothing, and answers how to connect as it. It is
// dropped when the test ends.
func Role(tb testing.TB, db *pgxpool.Pool) (url, name string) {
	tb.Helper()
	name = "worker_" + strings.ToLower(rand.Text())
	if _, err := db.Exec(tb.Context(), "CREATE ROLE "+name+" LOGIN PASSWORD 'x'"); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if _, err := db.Exec(context.Background(), "DROP OWNED BY "+name+"; DROP ROLE "+name); err != nil {
			tb.Error(err)
		}
	})
	cfg := db.Config().ConnConfig
	return fmt.Sprintf("host=%s port=%d dbname=%s user=%s password=x", cfg.Host, cfg.Port, cfg.Database, name), name
}
