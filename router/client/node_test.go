package client_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what should take a moment.
const patience = time.Minute

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// openNode starts a node, on a free port and with a store of its own unless cfg
// says otherwise.
func openNode(t *testing.T, cfg node.Config) *node.Node {
	t.Helper()
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	if cfg.Data == "" {
		cfg.Data = t.TempDir()
	}
	n, err := node.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("close node: %v", err)
		}
	})
	return n
}

// connect returns a client whose connections end with the test.
func connect(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	if cfg.HTTP == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		t.Cleanup(transport.CloseIdleConnections)
		cfg.HTTP = &http.Client{Transport: transport}
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// start returns a client of a node of its own.
func start(t *testing.T) *client.Client {
	t.Helper()
	return connect(t, client.Config{Server: openNode(t, node.Config{}).URL()})
}

// manual is a policy that makes nothing durable by itself.
func manual() plane.Policy {
	p := plane.DefaultPolicy()
	p.Units, p.Interval, p.CancelGrace = p.MaxUnits, time.Hour, 0
	return p
}

func open(t *testing.T, c *client.Client, id string) wire.Opened {
	t.Helper()
	opened, err := c.Open(within(t, patience), id, wire.Open{})
	if err != nil {
		t.Fatalf("open %q: %v", id, err)
	}
	return opened
}

func appendAt(t *testing.T, c *client.Client, id string, from int64, delta string) int64 {
	t.Helper()
	ack, err := c.Append(within(t, patience), id, from, delta)
	if err != nil {
		t.Fatalf("append %.40q to %q: %v", delta, id, err)
	}
	return ack.Seq
}

func closed(t *testing.T, c *client.Client, id string) wire.Sealed {
	t.Helper()
	sealed, err := c.Close(within(t, patience), id, wire.Close{})
	if err != nil {
		t.Fatalf("close %q: %v", id, err)
	}
	return sealed
}

func textOf(t *testing.T, c *client.Client, id string) string {
	t.Helper()
	snap, err := c.Snapshot(within(t, patience), id)
	if err != nil {
		t.Fatalf("snapshot of %q: %v", id, err)
	}
	return snap.Text
}
