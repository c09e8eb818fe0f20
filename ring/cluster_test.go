package ring_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/ring"
	"rillkeep.dev/rillkeep/ring/ringtest"
)

const secret = "a secret of the whole cluster"

// cluster is nodes on a network in memory, in a bubble.
type cluster struct {
	t     *testing.T
	net   *ringtest.Network
	seeds []string

	mu    sync.Mutex
	nodes []*node // those that were started
}

// node is one process.
type node struct {
	*ring.Ring
	host *ringtest.Host
	name string
	log  *buffer
}

// buffer is a log that a test may read at any time.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func ip(i int) string { return fmt.Sprintf("10.0.0.%d", i) }

// inBubble runs a test in virtual time, and closes what it started.
func inBubble(t *testing.T, options ringtest.Options, test func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, net: ringtest.New(options)}
		defer c.close()
		test(t, c)
	})
}

func (c *cluster) close() {
	var all sync.WaitGroup
	for _, n := range c.nodes {
		all.Go(func() { _ = n.Close() })
	}
	all.Wait()
	time.Sleep(10 * time.Second) // what memberlist started ends by its timeouts; time stops with the test
}

// open tries to start node number i; change may alter its configuration.
func (c *cluster) open(i int, change func(*ring.Config)) (*node, error) {
	c.t.Helper()
	host := c.net.Host(ip(i))
	transport, err := host.Transport(ring.DefaultPort)
	if err != nil {
		c.t.Fatal(err)
	}
	log := &buffer{}
	cfg := ring.Config{
		Node: fmt.Sprintf("node-%d", i), Incarnation: "a", Version: "1",
		Secrets: []string{secret}, Seeds: ring.Static{Addrs: c.seeds},
		PeerAddr: ":7947", HTTPAddr: ":8080",
		Transport: transport,
		Log:       slog.New(slog.NewTextHandler(log, nil)),
	}
	if change != nil {
		change(&cfg)
	}
	r, err := ring.Open(c.t.Context(), cfg)
	if err != nil {
		return nil, err
	}
	n := &node{Ring: r, host: host, name: cfg.Node + "/" + cfg.Incarnation, log: log}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = append(c.nodes, n)
	return n, nil
}

// join starts node number i and makes it active.
func (c *cluster) join(i int, change func(*ring.Config)) *node {
	c.t.Helper()
	n, err := c.open(i, change)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := n.SetState(c.t.Context(), ring.Active); err != nil {
		c.t.Fatal(err)
	}
	return n
}

// start makes a cluster of n active nodes, numbered from 1, that see each other.
func (c *cluster) start(n int) []*node {
	c.t.Helper()
	for i := 1; i <= n; i++ {
		c.seeds = append(c.seeds, ip(i))
	}
	nodes := make([]*node, n)
	for i := range nodes {
		nodes[i] = c.join(i+1, nil)
	}
	c.converge(10*time.Second, nodes...)
	return nodes
}

// converge waits until each node's table has just all of them, with one digest,
// and answers how long that took.
func (c *cluster) converge(within time.Duration, nodes ...*node) time.Duration {
	c.t.Helper()
	var names []string
	for _, n := range nodes {
		names = append(names, n.name)
	}
	slices.Sort(names)
	took := c.until(within, func() bool {
		for _, n := range nodes {
			if v := n.View(); !slices.Equal(v.Names(), names) || v.Digest() != nodes[0].View().Digest() {
				return false
			}
		}
		return true
	}, nodes...)
	return took
}

// until waits for something to be so, and fails when it isn't in time.
func (c *cluster) until(within time.Duration, so func() bool, nodes ...*node) time.Duration {
	c.t.Helper()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		took := time.Since(begin)
		if so() {
			return took
		}
		if took > within {
			for _, n := range nodes {
				c.t.Logf("%s sees %v", n.name, n.View().Names())
			}
			c.t.Fatalf("not so after %v", within)
		}
	}
}

// sees says whether every node's table has name, or none has.
func sees(name string, has bool, nodes ...*node) func() bool {
	return func() bool {
		for _, n := range nodes {
			if slices.Contains(n.View().Names(), name) != has {
				return false
			}
		}
		return true
	}
}

func ips(from, to int) (all []string) {
	for i := from; i <= to; i++ {
		all = append(all, ip(i))
	}
	return all
}

func lan(seed uint64) ringtest.Options {
	return ringtest.Options{Latency: time.Millisecond, Jitter: time.Millisecond, Seed: seed}
}

func TestNodesFindEachOtherAndAgree(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(1), func(t *testing.T, c *cluster) {
		nodes := c.start(5)
		v := nodes[3].View()
		if got := len(v.Members()); got != 5 {
			t.Fatalf("%d members", got)
		}
		m, ok := v.Member("node-2/a")
		want := ring.Member{
			Name: "node-2/a", Node: "node-2", Incarnation: "a", State: ring.Active, Version: "1",
			GossipAddr: "10.0.0.2:7946", PeerAddr: "10.0.0.2:7947", HTTPAddr: "10.0.0.2:8080",
		}
		if !ok || m != want {
			t.Errorf("member %+v, want %+v", m, want)
		}
		for i := range 200 {
			id := fmt.Sprint("stream-", i)
			owner, _ := nodes[0].View().Owner(id)
			for _, n := range nodes {
				if got, ok := n.View().Owner(id); !ok || got != owner {
					t.Fatalf("%s: %s says %q, %s says %q", id, nodes[0].name, owner, n.name, got)
				}
			}
		}
		s := nodes[0].Stats()
		if s.Active != 5 || s.Joining != 0 || s.Missing != 0 || s.Views == 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestAJoinIsKnownByAllWithinASecond(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(2), func(t *testing.T, c *cluster) {
		nodes := c.start(6)
		n, err := c.open(7, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.until(time.Second, func() bool {
			for _, other := range nodes {
				if m, ok := other.View().Member(n.name); !ok || m.State != ring.Joining {
					return false
				}
			}
			return true
		})
		if !sees(n.name, false, nodes...)() {
			t.Fatal("a joining node owns streams")
		}
		done := make(chan error, 1)
		go func() { done <- n.SetState(t.Context(), ring.Active) }()
		took := c.until(time.Second, sees(n.name, true, append(nodes, n)...))
		t.Logf("active, and known to be by all after %v", took)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// Who asks a node that has just come is not told that all others are gone.
func TestTheFirstViewHasAllThatTheSeedsKnew(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(5), func(t *testing.T, c *cluster) {
		nodes := c.start(4)
		late, err := c.open(5, nil)
		if err != nil {
			t.Fatal(err)
		}
		v := late.View()
		if !slices.Equal(v.Names(), nodes[0].View().Names()) || v.Digest() != nodes[0].View().Digest() || len(v.Members()) != 5 {
			t.Errorf("it sees %v, and owners %v", v.Members(), v.Names())
		}
	})
}

func TestALeaveIsKnownByAllWithinASecond(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(3), func(t *testing.T, c *cluster) {
		nodes := c.start(7)
		leaver := nodes[3]
		rest := slices.Delete(slices.Clone(nodes), 3, 4)
		done := make(chan error, 1)
		begin := time.Now()
		go func() { done <- leaver.Leave(t.Context()) }()
		t.Logf("out of all tables after %v", c.until(time.Second, sees(leaver.name, false, nodes...)))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		t.Logf("closed after %v", time.Since(begin))
		c.until(time.Second, func() bool {
			for _, n := range rest {
				if _, still := n.View().Member(leaver.name); still {
					return false
				}
			}
			return true
		})
		// Who left in order is not missed.
		time.Sleep(time.Minute)
		for _, n := range rest {
			if s := n.Stats(); s.Missing != 0 || s.Active != 6 {
				t.Errorf("%s: %+v", n.name, s)
			}
		}
	})
}

func TestADrainingMemberIsOutAtOnceAndStaysAMember(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(4), func(t *testing.T, c *cluster) {
		nodes := c.start(3)
		changed := nodes[0].Changed()
		go func() { _ = nodes[1].SetState(t.Context(), ring.Draining) }()
		c.until(time.Second, sees(nodes[1].name, false, nodes...))
		<-changed
		for _, n := range nodes {
			if m, ok := n.View().Member(nodes[1].name); !ok || m.State != ring.Draining {
				t.Errorf("%s sees %+v", n.name, m)
			}
		}
		time.Sleep(3 * time.Second)
		if err := nodes[1].SetState(t.Context(), ring.Active); err == nil {
			t.Error("a draining node became active again")
		}
	})
}

// However long changes may settle, who drains is asked for nothing new.
func TestADrainDoesNotWaitForOtherChanges(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(6), func(t *testing.T, c *cluster) {
		c.seeds = ips(1, 3)
		var nodes []*node
		for i := 1; i <= 3; i++ {
			nodes = append(nodes, c.join(i, func(cfg *ring.Config) { cfg.SettleDelay = time.Minute }))
		}
		c.converge(3*time.Minute, nodes...)
		go func() { _ = nodes[1].SetState(t.Context(), ring.Draining) }()
		c.until(time.Second, sees(nodes[1].name, false, nodes...))
	})
}

func TestAMemberThatWaitsIsOutAtOnceAndComesBack(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(7), func(t *testing.T, c *cluster) {
		nodes := c.start(3)
		waits := nodes[1]
		for range 3 {
			go func() { _ = waits.SetState(t.Context(), ring.Waiting) }()
			c.until(time.Second, sees(waits.name, false, nodes...))
			for _, n := range nodes {
				if m, ok := n.View().Member(waits.name); !ok || m.State != ring.Waiting || n.Stats().Waiting != 1 {
					t.Errorf("%s sees %+v", n.name, m)
				}
			}
			if err := waits.SetState(t.Context(), ring.Active); err != nil {
				t.Error(err)
			}
			c.converge(5*time.Second, nodes...)
		}
		if err := waits.SetState(t.Context(), ring.Joining); err == nil {
			t.Error("it joins once more")
		}
		if err := waits.SetState(t.Context(), ring.Waiting); err != nil {
			t.Error(err)
		}
		if err := waits.SetState(t.Context(), ring.Draining); err != nil {
			t.Error(err)
		}
		for _, s := range []ring.State{ring.Waiting, ring.Active} {
			if err := waits.SetState(t.Context(), s); err == nil {
				t.Errorf("it drained, and is %v again", s)
			}
		}
	})
}

// What they wait for is down for all: it makes no difference who is asked, as long as
// all think of the same one.
func TestWhereAllWaitTheRingIsAsItWas(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(8), func(t *testing.T, c *cluster) {
		nodes := c.start(3)
		before := nodes[0].View().Digest()
		for _, n := range nodes {
			if err := n.SetState(t.Context(), ring.Waiting); err != nil {
				t.Error(err)
			}
		}
		c.until(5*time.Second, func() bool {
			for _, n := range nodes {
				if n.Stats().Waiting != 3 || n.View().Digest() != before {
					return false
				}
			}
			return true
		})
		if err := nodes[2].SetState(t.Context(), ring.Active); err != nil {
			t.Error(err)
		}
		c.until(5*time.Second, sees(nodes[0].name, false, nodes...))
		c.until(time.Second, sees(nodes[2].name, true, nodes...))
		for _, n := range nodes[:2] {
			if err := n.SetState(t.Context(), ring.Active); err != nil {
				t.Error(err)
			}
		}
		c.converge(5*time.Second, nodes...)
	})
}

func TestTheLastOneOutLeavesAnEmptyRing(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(5), func(t *testing.T, c *cluster) {
		n, err := c.open(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if owner, ok := n.View().Owner("id"); ok {
			t.Fatalf("%s owns id while joining", owner)
		}
		if err := n.SetState(t.Context(), ring.Active); err != nil {
			t.Fatal(err)
		}
		c.until(time.Second, sees(n.name, true, n))
		if err := n.SetState(t.Context(), ring.Draining); err != nil {
			t.Fatal(err)
		}
		c.until(time.Second, sees(n.name, false, n))
		if owner, ok := n.View().Owner("id"); ok {
			t.Fatalf("%s owns id while draining", owner)
		}
	})
}

func TestTheEndIsOrderlyWhateverComesFirst(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(6), func(t *testing.T, c *cluster) {
		nodes := c.start(3)
		if err := nodes[0].Close(); err != nil {
			t.Error(err)
		}
		if err := nodes[0].Leave(t.Context()); err != nil {
			t.Errorf("leave after close: %v", err)
		}
		if err := nodes[0].SetState(t.Context(), ring.Draining); !strings.Contains(fmt.Sprint(err), "closed") {
			t.Errorf("state after close: %v", err)
		}
		// Leave and Close at once, and both twice.
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { _ = nodes[1].Leave(t.Context()) })
			all.Go(func() { _ = nodes[1].Close() })
		}
		all.Wait()
		// Leave ends with its context.
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begin := time.Now()
		if err := nodes[2].Leave(ctx); err == nil {
			t.Error("left in 100 ms")
		}
		if took := time.Since(begin); took > 150*time.Millisecond {
			t.Errorf("left after %v", took)
		}
	})
}
