package server_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/store/postgres/pgtest"
	"rillkeep.dev/rillkeep/store/postgres/pgtest/server"
)

func TestAServerEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	if os.Getenv("PGTEST_CHILD") != "" {
		s := start(t)
		os.Stdout.WriteString(s.URL() + "\n")
		os.Stdout.Sync()
		select {}
	}
	child := exec.Command(os.Args[0], "-test.run=^TestAServerEndsWithItsProcess$")
	child.Env = append(os.Environ(), "PGTEST_CHILD=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 200)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	address := string(line[:n-1])
	pgtest.Exec(t, address, "SELECT 1")
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()

	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	dir := u.Query().Get("host")
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(dir); os.IsNotExist(err) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is still there", dir)
		}
	}
}

func TestAStoppedServerLeavesNothing(t *testing.T) {
	t.Parallel()
	s := start(t, "work_mem=7MB")
	pgtest.Exec(t, s.URL(), "SELECT 1 / (current_setting('work_mem') = '7MB')::int")
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(u.Query().Get("host")); !os.IsNotExist(err) {
		t.Errorf("its folder: %v", err)
	}
}

func start(t *testing.T, settings ...string) *server.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := server.Start(ctx, settings...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAServerThatWentDownHasItsData(t *testing.T) {
	t.Parallel()
	s := start(t)
	pgtest.Exec(t, s.URL(), "CREATE TABLE t (n int)")
	for i, how := range []server.Mode{server.Fast, server.Immediate} {
		pgtest.Exec(t, s.URL(), "INSERT INTO t VALUES (1)")
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
		pgtest.Exec(t, s.URL(), fmt.Sprintf("SELECT 1 / (count(*) = %d)::int FROM t", i+1))
	}
	if err := s.Down("sideways"); err == nil {
		t.Error("it went down sideways")
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}
