package ring_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/ring"
)

func TestStrangersAreRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*ring.Config)
		want   error
		says   []string
		count  func(ring.Stats) uint64
	}{
		{"another secret", func(cfg *ring.Config) { cfg.Secrets = []string{"another secret, as long"} },
			ring.ErrSecret, []string{"10.0.0.1:7946", "secret", "--cluster-secret"}, func(s ring.Stats) uint64 { return s.RefusedSecret }},
		{"another cluster", func(cfg *ring.Config) { cfg.Cluster = "staging" },
			ring.ErrCluster, []string{"10.0.0.1:7946", `"staging"`, "--cluster-name"}, func(s ring.Stats) uint64 { return s.RefusedCluster }},
		{"other settings", func(cfg *ring.Config) { cfg.Settings.Load = 1.25 },
			ring.ErrSettings, []string{"4093/100/2", "4093/100/1.25"}, func(s ring.Stats) uint64 { return s.RefusedSettings }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, lan(20), func(t *testing.T, cl *cluster) {
				nodes := cl.start(2)
				cl.seeds = ips(1, 2)
				_, err := cl.open(3, c.change)
				if !errors.Is(err, c.want) {
					t.Fatalf("opened with %v", err)
				}
				t.Log(err)
				for _, part := range c.says {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%q says nothing of %s", err, part)
					}
				}
				time.Sleep(time.Second)
				for _, n := range nodes {
					if got := len(n.View().Members()); got != 2 {
						t.Errorf("%s has %d members", n.name, got)
					}
					if c.count(n.Stats()) == 0 || !strings.Contains(n.log.String(), c.want.Error()) {
						t.Errorf("%s neither counted nor logged it: %+v\n%s", n.name, n.Stats(), n.log)
					}
				}
			})
		})
	}
}

// Of several seeds one may have become part of another cluster: that keeps nobody
// from its own.
func TestAStrangersAddressAmongTheSeedsIsPassedOver(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(21), func(t *testing.T, c *cluster) {
		c.seeds = ips(1, 2)
		staging := c.join(1, func(cfg *ring.Config) { cfg.Cluster, cfg.Seeds = "staging", nil })
		own := c.join(2, func(cfg *ring.Config) { cfg.Seeds = nil })
		third := c.join(3, nil)
		c.converge(time.Second, own, third)
		time.Sleep(3 * time.Minute)
		c.converge(0, own, third)
		c.converge(0, staging)
		if n := strings.Count(third.log.String(), ring.ErrCluster.Error()); n > 5 {
			t.Errorf("logged %d times in 3 minutes", n)
		}
		if third.Stats().RefusedCluster < 10 {
			t.Errorf("stats %+v", third.Stats())
		}
	})
}

// Two clusters with other settings that meet later stay apart, and say so.
func TestIslandsOfOtherSettingsStayApart(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(22), func(t *testing.T, c *cluster) {
		c.seeds = ips(1, 4)
		c.net.Cut(ips(1, 2), ips(3, 4))
		other := func(cfg *ring.Config) { cfg.Settings.Replication = 20 }
		nodes := []*node{c.join(1, nil), c.join(2, nil), c.join(3, other), c.join(4, other)}
		c.net.Heal()
		time.Sleep(time.Minute)
		c.converge(0, nodes[:2]...)
		c.converge(0, nodes[2:]...)
		for _, n := range nodes {
			if n.Stats().RefusedSettings == 0 || !strings.Contains(n.log.String(), ring.ErrSettings.Error()) {
				t.Errorf("%s: %+v", n.name, n.Stats())
			}
		}
	})
}

func TestANameThatLivesIsTaken(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(23), func(t *testing.T, c *cluster) {
		nodes := c.start(3)
		_, err := c.open(9, func(cfg *ring.Config) { cfg.Node, cfg.Incarnation = "node-2", "b" })
		if !errors.Is(err, ring.ErrNameTaken) || !strings.Contains(err.Error(), "node-2/a lives at 10.0.0.2:7946") {
			t.Fatalf("opened with %v", err)
		}
		t.Log(err)
		time.Sleep(2 * time.Second)
		c.converge(0, nodes...)
		for _, n := range nodes {
			if got := len(n.View().Members()); got != 3 {
				t.Errorf("%s has %d members", n.name, got)
			}
		}
	})
}

func TestTheVeryNameOfAProcessIsTaken(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(24), func(t *testing.T, c *cluster) {
		nodes := c.start(3)
		_, err := c.open(9, func(cfg *ring.Config) { cfg.Node = "node-2" })
		if !errors.Is(err, ring.ErrNameTaken) || !strings.Contains(err.Error(), "10.0.0.2:7946") {
			t.Fatalf("opened with %v", err)
		}
		t.Log(err)
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			c.converge(0, nodes...)
		}
	})
}

func TestANodeKilledAndRestartedAtOnceIsBackAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		crash   bool // without a word, not by a signal
		address int
	}{
		{"at another address", false, 8},
		{"at its old address", false, 2},
		{"at another address, its machine gone", true, 8},
		{"at its old address, its machine gone", true, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, lan(25), func(t *testing.T, cl *cluster) {
				nodes := cl.start(4)
				if c.crash {
					nodes[1].host.Crash()
				} else {
					nodes[1].host.Kill()
				}
				begin := time.Now()
				nodes[1] = cl.join(c.address, func(cfg *ring.Config) { cfg.Node, cfg.Incarnation = "node-2", "b" })
				cl.converge(time.Second, nodes...)
				took := time.Since(begin)
				t.Logf("in all tables %v after the crash", took)
				if took > 3*time.Second {
					t.Errorf("in all tables after %v", took)
				}
				time.Sleep(time.Minute)
				cl.converge(0, nodes...)
				for _, n := range nodes {
					if s := n.Stats(); s.Missing != 0 || s.RefusedName != 0 {
						t.Errorf("%s: %+v", n.name, s)
					}
				}
			})
		})
	}
}

// A process that was paused while its successor started is told that it was
// replaced, and is nobody's owner any more.
func TestAPausedProcessIsToldOfItsSuccessor(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(26), func(t *testing.T, c *cluster) {
		nodes := c.start(3)
		paused := nodes[1]
		paused.host.Freeze()
		nodes[1] = c.join(8, func(cfg *ring.Config) { cfg.Node, cfg.Incarnation = "node-2", "b" })
		c.converge(2*time.Second, nodes...)
		for _, n := range nodes { // long before it is seen dead
			if n.View().Has("node-2/a") || !n.View().Has("node-2/b") {
				t.Errorf("%s has %v", n.View().Self(), n.View().Members())
			}
		}
		time.Sleep(20 * time.Second)
		paused.host.Thaw()
		c.until(20*time.Second, func() bool { return paused.View().Replaced() })
		time.Sleep(30 * time.Second)
		c.converge(0, nodes...)
		if !paused.Stats().Replaced || !strings.Contains(paused.log.String(), "took this node's place") {
			t.Errorf("%+v\n%s", paused.Stats(), paused.log)
		}
	})
}

func TestOfTwoThatStartUnderOneNameOneGoesOn(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		inBubble(t, lan(50+seed), func(t *testing.T, c *cluster) {
			nodes := c.start(3)
			var all sync.WaitGroup
			var twins [2]*node
			var errs [2]error
			for i, incarnation := range []string{"a", "b"} {
				all.Go(func() {
					n, err := c.open(8+i, func(cfg *ring.Config) { cfg.Node, cfg.Incarnation = "twin", incarnation })
					if err == nil {
						twins[i] = n
						time.Sleep(time.Second) // what a node does before it is ready
						err = n.SetState(t.Context(), ring.Active)
					}
					errs[i] = err
				})
			}
			all.Wait()
			if errs[0] != nil || !errors.Is(errs[1], ring.ErrNameTaken) {
				t.Fatalf("errors %v", errs)
			}
			if twins[1] != nil {
				_ = twins[1].Close()
			}
			c.converge(time.Second, append(nodes, twins[0])...)
		})
	}
}

// Two processes of one node name that could not know of each other are two
// members; both say so.
func TestNamesakesThatMeetLateAreReported(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(27), func(t *testing.T, c *cluster) {
		c.seeds = ips(1, 2)
		c.net.Cut(ips(1, 1), ips(2, 2))
		one := c.join(1, func(cfg *ring.Config) { cfg.Node = "twin" })
		other := c.join(2, func(cfg *ring.Config) { cfg.Node, cfg.Incarnation = "twin", "b" })
		c.net.Heal()
		c.converge(20*time.Second, one, other)
		time.Sleep(time.Second)
		for _, n := range []*node{one, other} {
			if n.Stats().RefusedName == 0 || !strings.Contains(n.log.String(), ring.ErrNameTaken.Error()) {
				t.Errorf("%s: %+v", n.name, n.Stats())
			}
		}
	})
}

// Each of three rounds restarts every node with its next secrets; at no time are
// those that run two rings.
func TestASecretChangesWithoutAGap(t *testing.T) {
	t.Parallel()
	const next = "the secret of the next year"
	inBubble(t, lan(28), func(t *testing.T, c *cluster) {
		nodes := c.start(4)
		for round, secrets := range [][]string{{secret, next}, {next, secret}, {next}} {
			for i := range nodes {
				if err := nodes[i].Leave(t.Context()); err != nil {
					t.Fatal(err)
				}
				nodes[i] = c.join(i+1, func(cfg *ring.Config) {
					cfg.Secrets, cfg.Incarnation = secrets, fmt.Sprint("r", round)
				})
				c.converge(3*time.Second, nodes...)
			}
		}
		for _, n := range nodes {
			if s := n.Stats(); s.RefusedSecret > 0 {
				t.Errorf("%s: %+v", n.name, s)
			}
		}
		if _, err := c.open(5, nil); !errors.Is(err, ring.ErrSecret) {
			t.Errorf("the old secret: %v", err)
		}
		nodes = append(nodes, c.join(6, func(cfg *ring.Config) { cfg.Secrets = []string{next} }))
		c.converge(2*time.Second, nodes...)
	})
}

func TestConfigurationsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 400)
	for _, c := range []struct {
		name   string
		change func(*ring.Config)
		says   string
	}{
		{"no node", func(cfg *ring.Config) { cfg.Node = "" }, "Node"},
		{"a slash in the node", func(cfg *ring.Config) { cfg.Node = "a/b" }, "Node"},
		{"a space in the node", func(cfg *ring.Config) { cfg.Node = "a b" }, "Node"},
		{"a node that is too long", func(cfg *ring.Config) { cfg.Node = long }, "Node"},
		{"no incarnation", func(cfg *ring.Config) { cfg.Incarnation = "" }, "Incarnation"},
		{"an incarnation that is too long", func(cfg *ring.Config) { cfg.Incarnation = long }, "Incarnation"},
		{"an incarnation of other characters", func(cfg *ring.Config) { cfg.Incarnation = "é" }, "Incarnation"},
		{"no secret", func(cfg *ring.Config) { cfg.Secrets = nil }, "Secrets"},
		{"a short secret", func(cfg *ring.Config) { cfg.Secrets = []string{secret, "short"} }, "Secrets[1]"},
		{"a cluster name that is too long", func(cfg *ring.Config) { cfg.Cluster = long }, "Cluster"},
		{"metadata that is too long by the version", func(cfg *ring.Config) { cfg.Version = long }, "Version (400 bytes)"},
		{"metadata that is too long by an address", func(cfg *ring.Config) { cfg.HTTPAddr = long + ":80" }, "HTTPAddr (403 bytes)"},
		{"an unspecified peer address", func(cfg *ring.Config) { cfg.PeerAddr = "0.0.0.0:7947" }, "PeerAddr"},
		{"an unspecified address in other words", func(cfg *ring.Config) { cfg.PeerAddr = "[::ffff:0.0.0.0]:7947" }, "PeerAddr"},
		{"an unspecified public address", func(cfg *ring.Config) { cfg.HTTPAddr = "[::]:8080" }, "HTTPAddr"},
		{"a peer address without a port", func(cfg *ring.Config) { cfg.PeerAddr = "10.0.0.1" }, "PeerAddr"},
		{"an unspecified advertise address", func(cfg *ring.Config) { cfg.Advertise = "0.0.0.0" }, "Advertise"},
		{"a probe that times out too late", func(cfg *ring.Config) { cfg.ProbeTimeout = time.Second }, "ProbeTimeout"},
		{"a negative interval", func(cfg *ring.Config) { cfg.RejoinInterval = -1 }, "RejoinInterval"},
		{"settings out of range", func(cfg *ring.Config) { cfg.Settings.Load = 0.5 }, "Load"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, lan(1), func(t *testing.T, cl *cluster) {
				if _, err := cl.open(1, c.change); err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("opened with %v", err)
				}
			})
		})
	}
}
