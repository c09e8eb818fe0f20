// Package dev runs a cluster on one machine, for who works with it or wants to
// watch it: nodes that are processes, to be killed and started again, and in front
// of them an address that leads to those that are there.
package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"rillkeep.dev/rillkeep/router/auth"
)

// Config says what a Cluster is made of.
type Config struct {
	Nodes  int    // how many, 1 or more; they are called dev-1 and so on
	Listen string // host:port of the front, on loopback; required

	// Command returns the process of a node, ready to be started. It calls Announce,
	// and ends with its Lifeline; its standard streams are the Cluster's. Required.
	Command func(name string) *exec.Cmd

	Log io.Writer // takes what the nodes say, each line after its node's name; required

	// Drain is how long nodes may take to end when they are asked to; those that
	// take longer are killed. 0 means 30 s.
	Drain time.Duration
}

// Cluster is nodes and their front. Its methods are safe for concurrent use.
type Cluster struct {
	cfg    Config
	nodes  []*process
	addr   net.Addr
	server *http.Server

	running sync.WaitGroup // processes
	serving sync.WaitGroup
}

// ErrNoNode says that not one node has come up.
var ErrNoNode = errors.New("no node has come up")

// Open starts the front, and the nodes one after another, so that each finds
// those before it. It returns when all have come up or failed; all having failed
// is ErrNoNode.
func Open(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg.Drain = cmp.Or(cfg.Drain, 30*time.Second)
	cfg.Log = &shared{to: cfg.Log}
	host, _, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("read address to listen on: %w", err)
	}
	if !auth.LocalHost(host) {
		return nil, fmt.Errorf("%s is not on loopback: what kills nodes is for this machine alone", cfg.Listen)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	c := &Cluster{cfg: cfg, addr: listener.Addr()}
	for i := range cfg.Nodes {
		name := "dev-" + strconv.Itoa(i+1)
		c.nodes = append(c.nodes, newProcess(name, cfg, &c.running))
	}
	c.serve(listener)
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Drain(context.WithoutCancel(ctx)))
	}
	return c, nil
}

func (c *Cluster) serve(listener net.Listener) {
	c.server = &http.Server{
		Handler:           c.handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          log.New(&lines{each: prefixed(c.cfg.Log, "front")}, "", 0),
	}
	c.serving.Go(func() { _ = c.server.Serve(listener) }) // ends with the Cluster
}

func (c *Cluster) start(ctx context.Context) error {
	up := 0
	var failed []error
	for _, p := range c.nodes {
		if err := p.restart(); err != nil {
			failed = append(failed, err)
			continue
		}
		now, err := p.settled(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("start %s: %w", p.name, err)
		case now.State == Down:
			failed = append(failed, fmt.Errorf("%s: %s", now.Name, now.Why))
		default:
			up++
		}
	}
	if up == 0 {
		return fmt.Errorf("%w: %w", ErrNoNode, errors.Join(failed...))
	}
	return nil
}

// Addr is where the front listens.
func (c *Cluster) Addr() net.Addr { return c.addr }

// Nodes returns the nodes as they are now.
func (c *Cluster) Nodes() []Node {
	nodes := make([]Node, len(c.nodes))
	for i, p := range c.nodes {
		nodes[i] = p.now()
	}
	return nodes
}

// Drain asks all nodes to end, waits for them, and then ends the front, through
// which readers see the end of their streams. Nodes that are not through in time
// are killed. The error says which did not end well.
func (c *Cluster) Drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Drain)
	defer cancel()
	for _, p := range c.nodes {
		p.shut()
	}
	stop := context.AfterFunc(ctx, func() {
		for _, p := range c.nodes {
			_, _ = p.kill() // if it has not ended by now
		}
	})
	c.running.Wait()
	stop()
	var failed []error
	for _, p := range c.nodes {
		failed = append(failed, p.failure())
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if c.server.Shutdown(last) != nil {
		_ = c.server.Close() // whoever is there yet has nobody to be answered by
	}
	c.serving.Wait()
	return errors.Join(failed...)
}
