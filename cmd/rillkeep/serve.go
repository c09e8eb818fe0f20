package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/lmittmann/tint"

	"rillkeep.dev/rillkeep/router/auth"
	"rillkeep.dev/rillkeep/router/node"
)

type serveCmd struct {
	Listen   string `help:"Address to listen on, by default ${default}; beyond loopback only with keys." env:"RILLKEEP_LISTEN" default:"127.0.0.1:8080" placeholder:"HOST:PORT"`
	Data     string `help:"Folder of the embedded SQLite store, by default data; nodes of one machine may share it." env:"RILLKEEP_DATA" placeholder:"DIR"`
	Database string `help:"postgres:// URL of the store, instead of the embedded one." env:"RILLKEEP_DATABASE" placeholder:"URL"`
	Direct   string `help:"postgres:// URL of the same database past a pooler such as PgBouncer, if --database leads to one." name:"direct-database" env:"RILLKEEP_DIRECT_DATABASE" placeholder:"URL"`
	Name     string `help:"The node's name among those of one database or folder, the same over restarts. If not given it is host name and address; of a folder one node may have none." env:"RILLKEEP_NAME" placeholder:"NAME"`
	tableFlags
	Retention time.Duration `help:"Delete streams from the database this long after their end, such as 720h; by default they stay." env:"RILLKEEP_RETENTION" placeholder:"DURATION"`
	Keys      string        `help:"File of the keys that verify tokens. Without it everything is allowed, on loopback only." env:"RILLKEEP_KEYS" placeholder:"FILE"`
	Audience  string        `help:"Audience that tokens must be made for, by default rillkeep." env:"RILLKEEP_AUDIENCE" placeholder:"NAME"`
	MaxText   size          `help:"Memory for the text of all streams together, by default ${default}, at least 64KiB; the process takes up to twice as much." env:"RILLKEEP_MAX_TEXT" default:"1GiB" placeholder:"SIZE"`
	Drain     time.Duration `help:"Time that a stopping node has to seal its streams and end its readers, by default ${default}." env:"RILLKEEP_DRAIN" default:"25s" placeholder:"DURATION"`
	LogLevel  slog.Level    `help:"debug, info (the default), warn or error." env:"RILLKEEP_LOG_LEVEL" default:"info" placeholder:"LEVEL"`
	LogJSON   bool          `help:"Log JSON also to a terminal." name:"log-json" env:"RILLKEEP_LOG_JSON"`
}

// Help is printed below the flags.
func (serveCmd) Help() string {
	return `A DURATION is numbers with their units h, m, s or ms: 720h, 1h30m, 500ms. A SIZE is a
number with KiB, MiB, GiB or TiB: 512MiB. A setting that would have no effect beside
the others is refused.

Examples:
  rillkeep serve
  rillkeep serve --listen 127.0.0.1:9090 --data /var/lib/rillkeep
  RILLKEEP_DATABASE=postgres://user:password@127.0.0.1:5432/app rillkeep serve --retention 720h
  rillkeep serve --listen 0.0.0.0:8080 --keys keys.txt
  rillkeep serve --database postgres://… --table message --chunks message_chunk \
    --columns body=content,host=stream_host,cancel=stop_requested`
}

// Validate is called before Run.
func (s serveCmd) Validate() error {
	if s.Drain <= 0 {
		return errors.New("--drain is a time of more than 0")
	}
	return nil
}

// Run serves until it is told to stop, then drains.
func (s serveCmd) Run(ctx context.Context, con *console) error {
	log := slog.New(s.handler(con.err))
	cfg := node.Config{
		Listen: s.Listen, Data: s.Data, Database: s.Database, DirectDatabase: s.Direct, Name: s.Name,
		Retention: s.Retention, Audience: s.Audience, MaxText: int64(s.MaxText), Logger: log,
	}
	var err error
	if cfg.Tables, err = s.tables(); err != nil {
		return err
	}
	if s.Keys != "" {
		keys, err := auth.LoadKeys(s.Keys)
		if err != nil {
			return err
		}
		cfg.Keys = keys
	}
	n, err := node.Open(ctx, cfg)
	if err != nil {
		return err
	}
	s.welcome(con.out, n.Addr())

	select {
	case <-ctx.Done():
	case <-n.Failed():
		return errors.Join(errors.New("the server failed"), n.Close())
	}
	log.Info("draining", "within", s.Drain.String())
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Drain)
	defer cancel()
	return n.Drain(drain)
}

func (s serveCmd) handler(w io.Writer) slog.Handler {
	if s.LogJSON || !isTerminal(w) {
		return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: s.LogLevel})
	}
	return tint.NewTextHandler(w, &tint.Options{Level: s.LogLevel, TimeFormat: time.TimeOnly})
}

// welcome says where the node is and what to try.
func (s serveCmd) welcome(w io.Writer, addr net.Addr) {
	host, port, _ := net.SplitHostPort(addr.String()) // a listener's address has both
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "127.0.0.1" // among others
	}
	at := net.JoinHostPort(host, port)
	program, server, token, needed := word(os.Args[0]), "", "", ""
	if at != node.DefaultListen {
		server = " --server " + word("http://"+at)
	}
	if s.Keys != "" {
		token = ` -H "Authorization: Bearer $RILLKEEP_TOKEN"`
		needed = ", with a token in RILLKEEP_TOKEN (see " + program + " token --help)"
	}
	if s.Table != "" {
		needed += ", with the id of a row of " + s.Table + " for m1"
	}
	fmt.Fprintf(w, `Rillkeep serves on http://%[2]s

Try, in another terminal%[5]s:
  printf 'Hello, stream.' | %[1]s push%[3]s --format text m1
  %[1]s tail%[3]s m1
  curl -N%[4]s 'http://%[2]s/v1/streams/m1?from=0'
or open http://%[2]s/ in a browser.

`, program, at, server, token, needed)
}

// word returns s as one word of a shell's.
func word(s string) string {
	plain := func(c rune) bool {
		return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.ContainsRune("/._-:@+", c)
	}
	if strings.IndexFunc(s, func(c rune) bool { return !plain(c) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
