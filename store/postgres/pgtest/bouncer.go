//go:build unix

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Bouncer starts a PgBouncer that gives each transaction of a client another of
// a few sessions, in front of the server of a URL, and answers the URL by way of
// it. settings are more lines of its configuration. It ends with the test, which
// fails where there is no PgBouncer.
func Bouncer(tb testing.TB, server string, settings ...string) string {
	tb.Helper()
	bin, err := bouncerBinary()
	if err != nil {
		tb.Fatal(err)
	}
	to, err := pgconn.ParseConfig(server)
	if err != nil {
		tb.Fatal(err)
	}
	u, err := url.Parse(server)
	if err != nil {
		tb.Fatal(err)
	}
	u.Host, u.RawQuery = FreeAddress(tb), "sslmode=disable"
	_, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		tb.Fatal(err)
	}
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	password := ""
	if to.Password != "" {
		password = " password=" + quote(to.Password)
	}
	dir := Folder(tb, map[string]string{"pgbouncer.ini": fmt.Sprintf(`
[databases]
%s = host=%s port=%d dbname=%s user=%s%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
%s
`, to.Database, quote(to.Host), to.Port, quote(to.Database), quote(to.User), password, port, strings.Join(settings, "\n"))})

	cmd := exec.Command("/bin/sh", "-c", `"$bin" "$dir/pgbouncer.ini" >"$dir/log" 2>&1 & cat >/dev/null; kill -KILL $!`)
	cmd.Env = append(os.Environ(), "bin="+bin, "dir="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		if cmd.SysProcAttr.Credential, err = somebody(); err != nil {
			tb.Fatal(err)
		}
	}
	alive, err := cmd.StdinPipe() // it ends when this is closed, at the latest with this process
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		alive.Close()
		_ = cmd.Wait()
	})
	if err := answering(u.String()); err != nil {
		said, _ := os.ReadFile(filepath.Join(dir, "log"))
		tb.Fatalf("start PgBouncer: %v; it says %s", err, said)
	}
	return u.String()
}

// answering returns when a server that is being started answers.
func answering(server string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience/4)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, server)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

func bouncerBinary() (string, error) {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path, nil
	}
	for _, path := range []string{"/usr/sbin/pgbouncer", "/usr/local/sbin/pgbouncer", "/opt/homebrew/bin/pgbouncer"} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no PgBouncer here: install it (apt-get install pgbouncer, brew install pgbouncer)")
}
