//go:build unix

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"rillkeep.dev/rillkeep/store/postgres/pgtest/server"
)

// bouncers are the PgBouncers of this test binary, by the server that they are in
// front of, and their settings. Each ends with the process.
var bouncers struct {
	sync.Mutex
	of map[string]*bouncer
}

type bouncer struct {
	host  string
	alive io.WriteCloser // its keeper's input: it lives as long as this is open
}

// Bouncer answers a URL's database by way of a PgBouncer that gives each
// transaction of a client another of a few sessions. All databases of a server
// have the same one, of the same settings: more lines of its configuration. The
// test fails where there is no PgBouncer.
func Bouncer(tb testing.TB, url string, settings ...string) string {
	tb.Helper()
	to, err := pgconn.ParseConfig(url)
	if err != nil {
		tb.Fatal(err)
	}
	key := fmt.Sprintf("%s:%d %s %q", to.Host, to.Port, to.User, settings)
	bouncers.Lock()
	defer bouncers.Unlock()
	b := bouncers.of[key]
	if b == nil {
		if b, err = startBouncer(FreeAddress(tb), to, settings); err != nil {
			tb.Fatalf("start PgBouncer: %v", err)
		}
		if bouncers.of == nil {
			bouncers.of = make(map[string]*bouncer)
		}
		bouncers.of[key] = b
	}
	return b.url(to)
}

func (b *bouncer) url(to *pgconn.Config) string {
	u := url.URL{Scheme: "postgres", User: url.User(to.User), Host: b.host, Path: "/" + to.Database, RawQuery: "sslmode=disable"}
	return u.String()
}

func startBouncer(host string, to *pgconn.Config, settings []string) (*bouncer, error) {
	bin, err := bouncerBinary()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		return nil, err
	}
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	password := ""
	if to.Password != "" {
		password = " password=" + quote(to.Password)
	}
	dir, err := folder(map[string]string{"pgbouncer.ini": fmt.Sprintf(`
[databases]
* = host=%s port=%d user=%s%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
%s
`, quote(to.Host), to.Port, quote(to.User), password, port, strings.Join(settings, "\n"))})
	if err != nil {
		return nil, err
	}
	// As under an init system it is started again if it dies, as 1.18 may of a
	// cancel request whose sender is gone ("bad client state: 0").
	cmd := exec.Command("/bin/sh", "-c", `while sleep .1; do "$bin" "$dir/pgbouncer.ini" >>"$dir/log" 2>&1; done & cat >/dev/null; rm -rf "$dir"; kill -KILL 0`)
	cmd.Env = append(os.Environ(), "bin="+bin, "dir="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if cmd.SysProcAttr.Credential, err = server.Owner(); err != nil {
		return nil, err
	}
	alive, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	b := &bouncer{host: host, alive: alive}
	if err := answering(b.url(to)); err != nil {
		said, _ := os.ReadFile(filepath.Join(dir, "log"))
		_ = alive.Close()
		return nil, errors.Join(fmt.Errorf("%w; it says %s", err, said), cmd.Wait())
	}
	return b, nil
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
