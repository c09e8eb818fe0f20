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
	const insert = "INSERT INTO t VALUES ($1)"
	for name, tt := range map[string]struct {
		fault  pgtest.Fault
		landed int
	}{
		"before": {pgtest.CutBefore, 1}, "after": {pgtest.CutAfter, 2}, "stalled": {pgtest.Stall, 2},
	} {
		t.Run(name, func(t *testing.T) {
			url := pgtest.URL(t)
			p := pgtest.NewProxy(t, url)
			query(t, p.URL(), "CREATE TABLE t (n int)")
			conn, err := pgx.Connect(t.Context(), p.URL())
			if err != nil {
				t.Fatal(err)
			}
			p.On(pgtest.Nth(2, pgtest.Words("insert")), tt.fault)
			if _, err := conn.Exec(t.Context(), insert, 1); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if _, err := conn.Exec(ctx, insert, 2); err == nil || (ctx.Err() != nil) != (tt.fault == pgtest.Stall) {
				t.Errorf("got %v", err)
			}
			if n := count(t, url); n != tt.landed {
				t.Errorf("%d rows landed, want %d", n, tt.landed)
			}
			query(t, p.URL(), "INSERT INTO t VALUES (3)") // the third passes
			p.Cut()
		})
	}
}

func TestAProxyIsStillAndRefuses(t *testing.T) {
	p := pgtest.NewProxy(t, pgtest.URL(t))
	connect := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
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
	query(t, p.URL(), "SELECT 1")
	p.Delay(time.Second)
	began := time.Now()
	query(t, p.URL(), "SELECT 1")
	if took := time.Since(began); took < time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestAServerThatWentDownHasItsData(t *testing.T) {
	s := start(t)
	query(t, s.URL(), "CREATE TABLE t (n int)")
	for i, how := range []pgtest.Mode{pgtest.Fast, pgtest.Immediate} {
		query(t, s.URL(), "INSERT INTO t VALUES (1)")
		if err := s.Down(how); err != nil {
			t.Fatal(err)
		}
		if conn, err := pgx.Connect(t.Context(), s.URL()); err == nil {
			_ = conn.Close(t.Context())
			t.Errorf("%s: it is still there", how)
		}
		if err := s.Up(); err != nil {
			t.Fatal(err)
		}
		if n := count(t, s.URL()); n != i+1 {
			t.Errorf("%s: %d rows", how, n)
		}
	}
	if err := s.Down("sideways"); err == nil {
		t.Error("it went down sideways")
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}
