package pgtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// count answers how many rows have come through, past the proxy.
func count(t *testing.T, url string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM t").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAProxyBreaksWhatItIsToldTo(t *testing.T) {
	t.Parallel()
	const insert = "INSERT INTO t VALUES ($1)"
	for name, tt := range map[string]struct {
		fault  pgtest.Fault
		landed int
	}{
		"before": {pgtest.CutBefore, 1}, "after": {pgtest.CutAfter, 2}, "stalled": {pgtest.Stall, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			p := pgtest.NewProxy(t, url)
			pgtest.Exec(t, p.URL(), "CREATE TABLE t (n int)")
			conn, err := pgx.Connect(t.Context(), p.URL())
			if err != nil {
				t.Fatal(err)
			}
			p.On(pgtest.Nth(2, pgtest.Words("insert")), tt.fault)
			if _, err := conn.Exec(t.Context(), insert, 1); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if _, err := conn.Exec(ctx, insert, 2); err == nil || (ctx.Err() != nil) != (tt.fault == pgtest.Stall) {
				t.Errorf("got %v", err)
			}
			if n := count(t, url); n != tt.landed {
				t.Errorf("%d rows landed, want %d", n, tt.landed)
			}
			pgtest.Exec(t, p.URL(), "INSERT INTO t VALUES (3)") // the third passes
			p.Cut()
		})
	}
}

func TestAProxyIsStillAndRefuses(t *testing.T) {
	t.Parallel()
	p := pgtest.NewProxy(t, pgtest.URL(t))
	connect := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, p.URL())
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	}
	p.Refuse(true)
	if connect() == nil {
		t.Error("it refuses nobody")
	}
	p.Refuse(false)
	p.Freeze()
	if connect() == nil {
		t.Error("it is not frozen")
	}
	p.Thaw()
	pgtest.Exec(t, p.URL(), "SELECT 1")
	p.Delay(time.Second)
	began := time.Now()
	pgtest.Exec(t, p.URL(), "SELECT 1")
	if took := time.Since(began); took < time.Second {
		t.Errorf("it took %v", took)
	}
}
