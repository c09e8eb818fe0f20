package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/lmittmann/tint"

	"rillkeep.dev/rillkeep/cmd/rillkeep/internal/dev"
	"rillkeep.dev/rillkeep/router/auth"
	"rillkeep.dev/rillkeep/router/generate"
	"rillkeep.dev/rillkeep/router/node"
)

type serveCmd struct {
	Listen   string `help:"Address to listen on, by default ${default}; beyond loopback only with keys." env:"RILLKEEP_LISTEN" default:"127.0.0.1:8080" placeholder:"HOST:PORT"`
	Data     string `help:"Folder of the embedded SQLite store, by default data; nodes of one machine may share it." env:"RILLKEEP_DATA" placeholder:"DIR"`
	Database string `help:"postgres:// URL of the store, instead of the embedded one." env:"RILLKEEP_DATABASE" placeholder:"URL"`
	Direct   string `help:"postgres:// URL of the same database past a pooler such as PgBouncer, if --database leads to one." name:"direct-database" env:"RILLKEEP_DIRECT_DATABASE" placeholder:"URL"`
	Name     string `help:"The node's name among those of one database or folder, the same over restarts. If not given it is host name and address; of a folder one node may have none, and is called embedded." env:"RILLKEEP_NAME" placeholder:"NAME"`
	tableFlags
	ProducerTimeout time.Duration `help:"Seal a stream as interrupted whose producer is not connected, and was not heard of for this long, by default ${default}; below 0 never. A silent JavaScript producer is heard of every 15s." env:"RILLKEEP_PRODUCER_TIMEOUT" default:"1m" placeholder:"DURATION"`

	Retention time.Duration `help:"Delete streams from the database this long after their end, such as 720h; by default they stay." env:"RILLKEEP_RETENTION" placeholder:"DURATION"`
	Keys      string        `help:"File of the keys that verify tokens. Without it everything is allowed, on loopback only." env:"RILLKEEP_KEYS" placeholder:"FILE"`
	Audience  string        `help:"Audience that tokens must be made for, by default rillkeep." env:"RILLKEEP_AUDIENCE" placeholder:"NAME"`
	MaxText   size          `help:"Memory for the text of all streams together, by default ${default}, at least 64KiB; the process takes up to twice as much." env:"RILLKEEP_MAX_TEXT" default:"1GiB" placeholder:"SIZE"`
	Drain     time.Duration `help:"Time that a stopping node has to seal its streams and end its readers, by default ${default}." env:"RILLKEEP_DRAIN" default:"25s" placeholder:"DURATION"`
	LogLevel  slog.Level    `help:"debug, info (the default), warn or error." env:"RILLKEEP_LOG_LEVEL" default:"info" placeholder:"LEVEL"`
	LogJSON   bool          `help:"Log JSON also to a terminal." name:"log-json" env:"RILLKEEP_LOG_JSON"`
	clusterFlags
	Upstream []string `help:"A model that can be called: name=format:baseURL, format openai, openai-responses or anthropic; or openai or anthropic alone. More than one may be given." env:"RILLKEEP_UPSTREAMS" placeholder:"NAME=FORMAT:URL"`

	// How rillkeep dev starts its nodes.
	Supervised bool `help:"Print the address as a line of JSON, and stop when standard input ends." hidden:""`
	LogText    bool `help:"Log text also to a pipe." name:"log-text" hidden:""`
}

// Help is printed below the flags.
func (serveCmd) Help() string {
	return `A DURATION is numbers with their units h, m, s or ms: 720h, 1h30m, 500ms. A SIZE is a
number with KiB, MiB, GiB or TiB: 512MiB. A setting that would have no effect beside
the others is refused.

The key of an upstream is taken from RILLKEEP_UPSTREAM_<NAME>_KEY, in capitals and with _ for
hyphens; openai and anthropic alone also take OPENAI_API_KEY and ANTHROPIC_API_KEY.

Examples:
  rillkeep serve
  rillkeep serve --listen 127.0.0.1:9090 --data /var/lib/rillkeep
  RILLKEEP_DATABASE=postgres://user:password@127.0.0.1:5432/app rillkeep serve --retention 720h
  rillkeep serve --listen 0.0.0.0:8080 --keys keys.txt
  OPENAI_API_KEY=… rillkeep serve --upstream openai
  RILLKEEP_UPSTREAM_GPU_KEY=… rillkeep serve --upstream gpu=openai:http://10.0.0.7:8000/v1
  RILLKEEP_CLUSTER_SECRET=… rillkeep serve --listen 0.0.0.0:8080 --keys keys.txt --database postgres://… --name n1
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
	lifeline := context.WithoutCancel(ctx)
	if s.Supervised {
		ctx, lifeline = supervised(ctx, con.in)
	}
	cfg := node.Config{
		Listen: s.Listen, Data: s.Data, Database: s.Database, DirectDatabase: s.Direct, Name: s.Name,
		Retention: s.Retention, ProducerTimeout: s.ProducerTimeout, Audience: s.Audience, MaxText: int64(s.MaxText), Logger: log,
	}
	var err error
	if cfg.Tables, err = s.tables(); err != nil {
		return err
	}
	if cfg.Cluster, err = s.cluster(); err != nil {
		return err
	}
	for _, given := range s.Upstream {
		u, err := generate.ParseUpstream(strings.TrimSpace(given), os.Getenv)
		if err != nil {
			return err
		}
		if u.Key == "" {
			log.LogAttrs(ctx, slog.LevelInfo, "upstream is called without a key",
				slog.String("upstream", u.Name), slog.String("variable", generate.KeyVariable(u.Name)))
		}
		cfg.Generate.Upstreams = append(cfg.Generate.Upstreams, u)
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
	if err := s.present(con.out, n); err != nil {
		return errors.Join(err, n.Close())
	}
	select {
	case <-ctx.Done():
	case <-n.Failed():
		return errors.Join(errors.New("the server failed"), n.Close())
	}
	log.Info("draining", "within", s.Drain.String())
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Drain)
	defer cancel()
	if lifeline.Err() == nil {
		defer context.AfterFunc(lifeline, cancel)() // who let the node drain does not wait for it any more
	}
	return n.Drain(drain)
}

// supervised returns a context that is done also when the lifeline is, and that.
func supervised(ctx context.Context, in io.Reader) (either, lifeline context.Context) {
	lifeline = dev.Lifeline(in)
	either, cancel := context.WithCancel(ctx)
	context.AfterFunc(lifeline, cancel)
	return either, lifeline
}

// present says where the node is: to a person, or to the program that started it.
func (s serveCmd) present(out io.Writer, n *node.Node) error {
	if s.Supervised {
		return dev.Announce(out, n.URL())
	}
	return welcome{at: n.Addr(), keys: s.Keys != "", table: s.Table}.print(out)
}

func (s serveCmd) handler(w io.Writer) slog.Handler {
	if s.LogJSON || !s.LogText && !isTerminal(w) {
		return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: s.LogLevel})
	}
	return tint.NewTextHandler(w, &tint.Options{Level: s.LogLevel, TimeFormat: time.TimeOnly})
}
