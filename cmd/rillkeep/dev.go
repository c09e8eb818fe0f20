package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"rillkeep.dev/rillkeep/cmd/rillkeep/internal/dev"
)

// maxDevNodes is how many nodes one machine is for.
const maxDevNodes = 9

type devCmd struct {
	Nodes    int           `help:"How many nodes, by default ${default}." default:"3" placeholder:"N"`
	Listen   string        `help:"Address that leads to all of them, on loopback, by default ${default}." env:"RILLKEEP_LISTEN" default:"127.0.0.1:8080" placeholder:"HOST:PORT"`
	Data     string        `help:"Folder of their embedded SQLite store, by default ${default}." env:"RILLKEEP_DATA" default:"data" placeholder:"DIR"`
	Database string        `help:"postgres:// URL of their store, instead of the embedded one." env:"RILLKEEP_DATABASE" placeholder:"URL"`
	Drain    time.Duration `help:"Time that a stopping node has, by default ${default}." env:"RILLKEEP_DRAIN" default:"25s" placeholder:"DURATION"`
}

// Help is printed below the flags.
func (devCmd) Help() string {
	return `Each node is a process of its own, rillkeep serve, at an address of its own. The page at /
shows which has what, and kills, drains, pauses and starts them. So do
  curl http://127.0.0.1:8080/dev/nodes
  curl -X POST http://127.0.0.1:8080/dev/nodes/dev-1/kill      (stop, pause, resume, restart)
What else serve can be told is told to all nodes by its environment variables,
such as RILLKEEP_UPSTREAMS=openai and OPENAI_API_KEY.

Examples:
  rillkeep dev
  rillkeep dev --nodes 5 --listen 127.0.0.1:9090
  RILLKEEP_DATABASE=postgres://user:password@127.0.0.1:5432/app rillkeep dev`
}

// Validate is called by the parser.
func (d devCmd) Validate() error {
	if d.Nodes < 1 || d.Nodes > maxDevNodes {
		return fmt.Errorf("--nodes is from 1 to %d", maxDevNodes)
	}
	return nil
}

// Run runs the nodes until it is told to stop, then drains them.
func (d devCmd) Run(ctx context.Context, con *console) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	env := d.environment(os.Environ(), rand.Text()+rand.Text())
	args := d.arguments(isTerminal(con.err))
	c, err := dev.Open(ctx, dev.Config{
		Nodes: d.Nodes, Listen: d.Listen, Log: con.err,
		Drain: d.Drain + 5*time.Second, // which the nodes keep to by themselves
		Command: func(name string) *exec.Cmd {
			return &exec.Cmd{Path: self, Args: slices.Concat([]string{"rillkeep"}, args, []string{"--name", name}), Env: env}
		},
	})
	if err != nil {
		return err
	}
	if err := d.present(con, c); err != nil {
		return errors.Join(err, c.Drain(context.WithoutCancel(ctx)))
	}
	<-ctx.Done()
	con.say("draining")
	return c.Drain(context.WithoutCancel(ctx))
}

// arguments are those of every node.
func (d devCmd) arguments(terminal bool) []string {
	const free = "127.0.0.1:0"
	args := []string{
		"serve", "--supervised", "--listen", free, "--gossip-listen", free, "--peer-listen", free,
		"--drain", d.Drain.String(),
	}
	if d.Database == "" { // beside one it is refused
		args = append(args, "--data", d.Data)
	}
	if terminal {
		args = append(args, "--log-text")
	}
	return args
}

// environment is that of every node: this process's, without what it says of
// another cluster. What is secret is not among the arguments, which everybody sees.
func (d devCmd) environment(own []string, secret string) []string {
	env := slices.DeleteFunc(slices.Clone(own), func(v string) bool {
		return slices.ContainsFunc([]string{
			"RILLKEEP_CLUSTER_", "RILLKEEP_JOIN", "RILLKEEP_ADVERTISE", "RILLKEEP_FORWARDING", "RILLKEEP_DATABASE=",
		}, func(name string) bool { return strings.HasPrefix(v, name) })
	})
	env = append(env, "RILLKEEP_CLUSTER_SECRET="+secret)
	if d.Database != "" {
		env = append(env, "RILLKEEP_DATABASE="+d.Database)
	}
	return env
}

// present says where the nodes are.
func (d devCmd) present(con *console, c *dev.Cluster) error {
	all := welcome{at: c.Addr(), keys: os.Getenv("RILLKEEP_KEYS") != "", table: os.Getenv("RILLKEEP_TABLE")}
	if err := all.print(con.out); err != nil {
		return err
	}
	var each strings.Builder
	each.WriteString("That address leads to one node or another; each has its own, too:\n")
	for _, n := range c.Nodes() {
		where := n.URL
		if n.State == dev.Down {
			where = "did not start: " + n.Why
		}
		fmt.Fprintf(&each, "  %s  %s\n", n.Name, where)
	}
	return write(con.out, each.String()+"\n")
}
