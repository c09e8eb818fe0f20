package clustertest

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

const secret = "a secret of the test's cluster"

// drain is the time that a stopping node has.
const drain = 20 * time.Second

// cluster is nodes that share a database, each a process.
type cluster struct {
	testing.TB
	database string
	nodes    []*node
	calls    *http.Client // for what is answered at once
	reads    *http.Client // a connection for each reader
}

// node is one of them, through all its runs.
type node struct {
	c    *cluster
	name string
	args []string
	env  []string

	mu     sync.Mutex // guards below
	now    *process   // its latest run
	at     string     // where that listens
	client *client.Client
	header []string // of what a test asks, names and values in turn
}

// open starts so many nodes, and waits until they are one cluster. args are for all.
func open(t testing.TB, size int, args ...string) *cluster {
	t.Helper()
	c := assemble(t, size, args...)
	c.start()
	return c
}

// start starts all nodes, and waits until they are one cluster.
func (c *cluster) start() {
	c.Helper()
	for _, n := range c.nodes {
		n.start()
	}
	c.settle()
}

// assemble is open without a start.
func assemble(t testing.TB, size int, args ...string) *cluster {
	t.Helper()
	calls := http.DefaultTransport.(*http.Transport).Clone()
	calls.MaxIdleConnsPerHost = 400
	reads := http.DefaultTransport.(*http.Transport).Clone()
	reads.DisableKeepAlives = true
	c := &cluster{TB: t, database: pgtest.URL(t), calls: &http.Client{Transport: calls}, reads: &http.Client{Transport: reads}}
	t.Cleanup(calls.CloseIdleConnections)
	for i := range size {
		name := fmt.Sprintf("n%d", i+1)
		c.nodes = append(c.nodes, &node{
			c: c, name: name, env: []string{"RILLKEEP_CLUSTER_SECRET=" + secret},
			args: append([]string{
				"serve", "--supervised", "--log-json", "--database", c.database, "--name", name, "--listen", "127.0.0.1:0",
				"--gossip-listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0", "--drain", drain.String(),
			}, args...),
		})
	}
	return c
}

// start runs the node.
func (n *node) start() {
	n.c.Helper()
	p := launch(n.c, n.env, n.args...)
	at := p.url(n.c)
	cl, err := client.New(client.Config{Server: at, HTTP: n.c.calls, Timeout: 20 * time.Second})
	if err != nil {
		n.c.Fatal(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now, n.at, n.client = p, at, cl
}

// place is where the node is, or was.
func (n *node) place() (at string, by *client.Client) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.at, n.client
}

// url is where it is.
func (n *node) url() string {
	at, _ := n.place()
	return at
}

func (n *node) run() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now
}

// stop ends the node as a deployment does.
func (n *node) stop() (took time.Duration) {
	n.c.Helper()
	began := time.Now()
	n.run().Signal(n.c, syscall.SIGTERM)
	if code := n.run().Ended(n.c); code != 0 {
		n.c.Errorf("%s: exit code %d", n.name, code)
	}
	return time.Since(began)
}

// kill ends the node as a crash does.
func (n *node) kill() {
	n.c.Helper()
	n.run().Signal(n.c, syscall.SIGKILL)
	n.run().Ended(n.c)
}

// is reports whether a member's name is this node's.
func (n *node) is(member string) bool { return strings.HasPrefix(member, n.name+"/") }

// through is the node that a client is led to, at its so-manieth attempt: by a
// load balancer that does not know which of them live.
func (c *cluster) through(i int) *node { return c.nodes[i%len(c.nodes)] }

// living is through for who knows which nodes live.
func (c *cluster) living(i int) *node {
	for ; c.through(i).run().IsOver(); i++ {
	}
	return c.through(i)
}

// await waits until something is so.
func (c *cluster) await(what string, is func() bool) {
	c.Helper()
	c.awaitFor(patience, what, is)
}

func (c *cluster) awaitFor(limit time.Duration, what string, is func() bool) {
	c.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); !is(); <-tick.C {
		if time.Now().After(deadline) {
			c.Fatalf("no %s after %v", what, limit)
		}
	}
}

// settle waits until all nodes that run have one ring, of them all.
func (c *cluster) settle() {
	c.Helper()
	c.await("one ring", func() bool {
		rings, size := map[string]bool{}, 0
		for _, n := range c.nodes {
			if p := n.run(); p == nil || p.IsOver() {
				continue
			}
			size++
			_, cl := n.place()
			seen, err := cl.Cluster(c.Context())
			if err != nil {
				return false
			}
			active := map[string]bool{}
			for _, m := range seen.Members {
				if m.State == "active" {
					active[m.Name] = true
				}
			}
			rings[strings.Join(slices.Sorted(maps.Keys(active)), " ")] = true
			rings[seen.Ring] = true
		}
		for r := range rings {
			if strings.Contains(r, "/") && strings.Count(r, "/") != size {
				return false
			}
		}
		return len(rings) == 2
	})
}

// hosts tells which node has each stream that is live.
func (c *cluster) hosts() map[string]*node {
	c.Helper()
	at := map[string]*node{}
	_, cl := c.nodes[len(c.nodes)-1].place()
	for q := (client.Query{Status: "streaming", Limit: 999}); ; {
		page, err := cl.List(c.Context(), q)
		if err != nil {
			c.Fatal(err)
		}
		for _, s := range page.Streams {
			for _, n := range c.nodes {
				if n.is(s.Host) {
					at[s.StreamID] = n
				}
			}
		}
		if q.After = page.Next; q.After == "" {
			return at
		}
	}
}

// snapshot is a stream as a node tells it.
func (n *node) snapshot(id string) wire.Snapshot {
	n.c.Helper()
	_, cl := n.place()
	snap, err := cl.Snapshot(n.c.Context(), id)
	if err != nil {
		n.c.Fatalf("%s, of %s: %v", n.name, id, err)
	}
	return snap
}

// within bounds what a test asks.
func (c *cluster) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(c.Context(), d)
	c.Cleanup(cancel)
	return ctx
}
