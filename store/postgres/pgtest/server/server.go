//go:build unix

// Package server runs a private PostgreSQL server from the binaries that are
// installed here.
package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

const superuser = "rillkeep"

// Server is a private PostgreSQL server in a temporary folder. It listens on a
// socket there and, unless its settings say otherwise, on no network.
type Server struct {
	dir    string
	url    string
	keeper *exec.Cmd
	alive  io.WriteCloser // the keeper's input: it lives as long as this is open
	said   *bufio.Scanner // the keeper's answers
}

// keep makes a server, says so, does what its input says, and removes the server
// when that ends: when this process closed it, exited or was killed.
const keep = `
set -e
trap 'rm -rf "$dir"' EXIT
trap '' INT TERM HUP
start() { "$bin/pg_ctl" start -D "$dir/data" -l "$dir/log" -w -t 60 -o "-k '$dir' -h '' $settings" >/dev/null 2>&1; }
stop() { "$bin/pg_ctl" stop -D "$dir/data" -m "$1" -w -t 60 >/dev/null 2>&1; }
"$bin/initdb" -D "$dir/data" -U "$superuser" -A trust -N -E UTF8 --no-locale >"$dir/initdb.log" 2>&1 || { tail -n 3 "$dir/initdb.log"; exit 1; }
start || { tail -n 3 "$dir/log"; exit 1; }
echo done
while read -r order; do
	if $order; then echo done; else tail -n 1 "$dir/log"; fi
done
stop immediate || true
`

// Start starts a server with the given settings, each name=value, on top of
// PostgreSQL's defaults. It ends when it is stopped, when nobody refers to it
// any more, or with this process, however that ends.
func Start(ctx context.Context, settings ...string) (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(TempDir(), "rillkeep-pg-")
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	s := &Server{dir: dir, url: socketURL(dir, settings)}
	if err := s.start(ctx, bin, settings); err != nil {
		return nil, errors.Join(fmt.Errorf("start PostgreSQL from %s: %w", bin, err), os.RemoveAll(dir))
	}
	return s, nil
}

// socketURL is the URL of a server that listens in folder dir, for a role that
// may do all.
func socketURL(dir string, settings []string) string {
	u := fmt.Sprintf("postgres://%s@/postgres?host=%s", superuser, url.QueryEscape(dir))
	for _, setting := range settings {
		if port, found := strings.CutPrefix(setting, "port="); found {
			u += "&port=" + port
		}
	}
	return u
}

// TempDir is where servers have their folders. It is short: a socket's path has about 100 bytes at most.
func TempDir() string {
	if info, err := os.Stat("/tmp"); err == nil && info.IsDir() {
		return "/tmp"
	}
	return os.TempDir()
}

func (s *Server) start(ctx context.Context, bin string, settings []string) error {
	var flags strings.Builder
	for _, setting := range settings {
		fmt.Fprintf(&flags, " -c '%s'", setting)
	}
	cmd := exec.Command("/bin/sh", "-c", keep)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "bin="+bin, "dir="+s.dir, "superuser="+superuser, "settings="+flags.String())
	// In a group of its own, no Ctrl-C meant for the test reaches it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	who, err := Owner()
	if err != nil {
		return err
	}
	if who != nil {
		if err := os.Chown(s.dir, int(who.Uid), int(who.Gid)); err != nil {
			return err
		}
		cmd.SysProcAttr.Credential = who
	}
	alive, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.keeper, s.alive, s.said = cmd, alive, bufio.NewScanner(said)
	giveUp := context.AfterFunc(ctx, func() { alive.Close() })
	var complaint []string
	for ; s.said.Scan(); complaint = append(complaint, s.said.Text()) {
		if s.said.Text() == "done" && giveUp() {
			return nil
		}
	}
	return errors.Join(errors.New(strings.Join(complaint, "; ")), ctx.Err(), s.Stop())
}

// Mode is how a server goes down.
type Mode string

const (
	Fast      Mode = "fast"      // sessions are ended, their transactions undone
	Immediate Mode = "immediate" // a crash: what is needed is done at the next start
)

// Down stops the server and keeps its data; Up starts it again.
func (s *Server) Down(how Mode) error { return s.order("stop " + string(how)) }

// Up starts a server that is down, and returns when it takes connections.
func (s *Server) Up() error { return s.order("start") }

// order has the keeper do something, which pg_ctl gives a minute.
func (s *Server) order(what string) error {
	if _, err := fmt.Fprintln(s.alive, what); err != nil {
		return fmt.Errorf("%s PostgreSQL: %w", what, err)
	}
	if !s.said.Scan() || s.said.Text() != "done" {
		return fmt.Errorf("%s PostgreSQL: %s", what, s.said.Text())
	}
	return nil
}

// URL is the URL of the server's own database, for a role that may do all.
func (s *Server) URL() string { return s.url }

// Stop stops the server and removes its folder.
func (s *Server) Stop() error {
	s.alive.Close()
	if err := s.keeper.Wait(); err != nil {
		return fmt.Errorf("stop PostgreSQL: %w", err)
	}
	return nil
}
