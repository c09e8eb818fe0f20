package pgtest_test

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

func TestEveryTestHasADatabaseOfItsOwn(t *testing.T) {
	one, other := pgtest.URL(t), pgtest.URL(t)
	query(t, one, "CREATE TABLE only_here ()")
	query(t, other, "CREATE TABLE only_here ()")
}

func TestAServerEndsWithItsProcess(t *testing.T) {
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
	query(t, address, "SELECT 1")
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
	s := start(t, "work_mem=7MB")
	query(t, s.URL(), "SELECT 1 / (current_setting('work_mem') = '7MB')::int")
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

func start(t *testing.T, settings ...string) *pgtest.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := pgtest.Start(ctx, settings...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func query(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
