package ring_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/ring"
	"rillkeep.dev/rillkeep/ring/ringtest"
)

// How long it takes until all know, at default settings, over many seeds: a crash
// at a random moment of the probes' round.
func TestACrashIsNoticedByAllOf7WithinSevenSeconds(t *testing.T) {
	t.Parallel()
	const runs = 30
	var took []time.Duration
	for seed := range uint64(runs) {
		inBubble(t, lan(100+seed), func(t *testing.T, c *cluster) {
			nodes := c.start(7)
			time.Sleep(time.Duration(seed*137%1000) * time.Millisecond)
			nodes[seed%7].host.Crash()
			rest := slices.Delete(slices.Clone(nodes), int(seed%7), int(seed%7)+1)
			took = append(took, c.until(7*time.Second, sees(nodes[seed%7].name, false, rest...), rest...))
		})
	}
	slices.Sort(took)
	t.Logf("noticed by all of 7 after p50 %v, max %v of %d runs", took[len(took)/2], took[len(took)-1], len(took))
}

func TestDetectionCanBeMadeFaster(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(7), func(t *testing.T, c *cluster) {
		c.seeds = ips(1, 3)
		var nodes []*node
		for i := 1; i <= 3; i++ {
			nodes = append(nodes, c.join(i, func(cfg *ring.Config) {
				cfg.ProbeInterval, cfg.ProbeTimeout, cfg.SuspicionMult = 200*time.Millisecond, 100*time.Millisecond, 3
			}))
		}
		c.converge(10*time.Second, nodes...)
		nodes[2].host.Crash()
		c.until(2*time.Second, sees(nodes[2].name, false, nodes[:2]...))
	})
}

func TestPacketsThatGetLostKeepNobodyOut(t *testing.T) {
	t.Parallel()
	options := lan(8)
	options.Loss = 0.1
	inBubble(t, options, func(t *testing.T, c *cluster) {
		nodes := c.start(5)
		gone := 0
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			for _, n := range nodes {
				gone += 5 - len(n.View().Names())
			}
		}
		if gone > 0 {
			t.Errorf("members were missing from tables %d times", gone)
		}
	})
}

func TestPartitionsHealByThemselves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		one, other  []string
		lasts       time.Duration
		left, right int // how many are on either side
	}{
		{"3|2 for a minute", ips(1, 3), ips(4, 5), time.Minute, 3, 2},
		{"3|2 for an hour", ips(1, 3), ips(4, 5), time.Hour, 3, 2},
		{"4|1 for a minute", ips(1, 4), ips(5, 5), time.Minute, 4, 1},
		{"4|1 for 15 s", ips(1, 4), ips(5, 5), 15 * time.Second, 0, 0}, // the one still doubts, the four don't
		{"4|1 for 3 s", ips(1, 4), ips(5, 5), 3 * time.Second, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, lan(9), func(t *testing.T, cl *cluster) {
				nodes := cl.start(5)
				cl.net.Cut(c.one, c.other)
				time.Sleep(c.lasts)
				if c.left > 0 {
					if l, r := len(nodes[0].View().Names()), len(nodes[4].View().Names()); l != c.left || r != c.right {
						t.Errorf("the sides have %d and %d members", l, r)
					}
				}
				cl.net.Heal()
				t.Logf("one ring %v after the cut was healed", cl.converge(20*time.Second, nodes...))
			})
		})
	}
}

// The seeds alone bring the sides together when everything else is forgotten.
func TestAPartitionOfHoursHealsBySeeds(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(10), func(t *testing.T, c *cluster) {
		c.seeds = ips(1, 1)
		var nodes []*node
		for i := 1; i <= 4; i++ {
			nodes = append(nodes, c.join(i, func(cfg *ring.Config) { cfg.RejoinMemory = time.Minute }))
		}
		c.converge(10*time.Second, nodes...)
		c.net.Cut(ips(1, 2), ips(3, 4))
		time.Sleep(10 * time.Minute)
		if s := nodes[3].Stats(); s.Missing != 0 || s.Unreached != 1 {
			t.Errorf("stats %+v", s)
		}
		c.net.Heal()
		c.converge(20*time.Second, nodes...)
	})
}

// once are seeds that are known at the start alone, as those of a list are that has
// become out of date.
type once struct {
	ring.Seeds
	asked *atomic.Bool
}

func (o once) Peers(ctx context.Context) ([]string, error) {
	if o.asked.Swap(true) {
		return nil, nil
	}
	return o.Seeds.Peers(ctx)
}

// Members that were seen within the last hour are as good as seeds.
func TestAPartitionHealsWithoutSeeds(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(17), func(t *testing.T, c *cluster) {
		c.seeds = ips(1, 1)
		var nodes []*node
		for i := 1; i <= 5; i++ {
			nodes = append(nodes, c.join(i, func(cfg *ring.Config) { cfg.Seeds = once{cfg.Seeds, new(atomic.Bool)} }))
			time.Sleep(time.Second)
		}
		c.converge(10*time.Second, nodes...)
		c.net.Cut(ips(1, 3), ips(4, 5))
		time.Sleep(20 * time.Minute)
		s := nodes[0].Stats()
		if s.Active != 3 || s.Missing != 2 || s.Unreached != 2 {
			t.Errorf("stats %+v", s)
		}
		if tries := s.RejoinsFailed / 2; tries < 20*60/15 {
			t.Errorf("each was asked %d times in 20 minutes", tries)
		}
		c.net.Heal()
		c.converge(20*time.Second, nodes...)
		for _, n := range nodes {
			n := n
			c.until(20*time.Second, func() bool { s := n.Stats(); return s.Missing == 0 && s.Unreached == 0 })
		}
	})
}

func TestOneWayCutsEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		from, to []string
		apart    bool // as far as gossip can tell
	}{
		{"one hears nobody", ips(2, 5), ips(1, 1), true},
		{"one is heard by nobody", ips(1, 1), ips(2, 5), true},
		{"one doesn't hear one other", ips(1, 1), ips(2, 2), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, lan(11), func(t *testing.T, cl *cluster) {
				nodes := cl.start(5)
				cl.net.CutOneWay(c.from, c.to)
				time.Sleep(time.Minute)
				if apart := len(nodes[4].View().Names()) == 4; apart != c.apart {
					t.Errorf("the others have %v", nodes[4].View().Names())
				}
				cl.net.Heal()
				cl.converge(20*time.Second, nodes...)
			})
		})
	}
}

func TestAFrozenNodeIsDroppedAndComesBack(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(12), func(t *testing.T, c *cluster) {
		nodes := c.start(5)
		nodes[2].host.Freeze()
		rest := slices.Delete(slices.Clone(nodes), 2, 3)
		c.until(8*time.Second, sees(nodes[2].name, false, rest...), rest...)
		time.Sleep(40 * time.Second)
		nodes[2].host.Thaw()
		t.Logf("back in all tables after %v", c.converge(20*time.Second, nodes...))
	})
}

func TestIslandsStartedApartBecomeOneRing(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(13), func(t *testing.T, c *cluster) {
		c.seeds = ips(1, 6)
		c.net.Cut(ips(1, 3), ips(4, 6))
		var nodes []*node
		for i := 1; i <= 6; i++ {
			nodes = append(nodes, c.join(i, nil))
		}
		c.converge(20*time.Second, nodes[:3]...)
		c.converge(20*time.Second, nodes[3:]...)
		time.Sleep(5 * time.Minute)
		c.net.Heal()
		c.converge(20*time.Second, nodes...)
	})
}

func TestANodeThatMissedItsPeersDoesNotStayAlone(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(14), func(t *testing.T, c *cluster) {
		c.seeds = ips(1, 3)
		c.net.Cut(ips(1, 1), ips(2, 3))
		c.net.Cut(ips(2, 2), ips(3, 3))
		var nodes []*node
		for i := 1; i <= 3; i++ {
			nodes = append(nodes, c.join(i, nil))
		}
		time.Sleep(time.Minute)
		for _, n := range nodes {
			if s := n.Stats(); s.Active != 1 || s.Unreached != 2 {
				t.Errorf("%s: %+v", n.name, s)
			}
		}
		c.net.Heal()
		c.converge(20*time.Second, nodes...)
	})
}

func TestManyChangesMakeFewViews(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(15), func(t *testing.T, c *cluster) {
		nodes := c.start(1)
		for i := 2; i <= 21; i++ {
			n, err := c.open(i, nil)
			if err != nil {
				t.Fatal(err)
			}
			nodes = append(nodes, n)
		}
		time.Sleep(time.Second)
		before, begin := nodes[0].Stats().Views, time.Now()
		var all sync.WaitGroup
		for _, n := range nodes[1:] {
			all.Go(func() { _ = n.SetState(t.Context(), ring.Active) })
		}
		took := c.converge(5*time.Second, nodes...)
		all.Wait()
		made := nodes[0].Stats().Views - before
		t.Logf("%d views of 20 changes in %v", made, took)
		if most := uint64(time.Since(begin)/(150*time.Millisecond)) + 1; made > most {
			t.Errorf("%d views in %v", made, time.Since(begin))
		}
	})
}

func TestAHandOfRollingRestartsKeepsOneRing(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(16), func(t *testing.T, c *cluster) {
		nodes := c.start(5)
		for i := range nodes {
			if err := nodes[i].Leave(t.Context()); err != nil {
				t.Fatal(err)
			}
			nodes[i] = c.join(i+1, func(cfg *ring.Config) { cfg.Incarnation = fmt.Sprint("r", i) })
			c.converge(5*time.Second, nodes...)
		}
		time.Sleep(2 * time.Minute)
		for _, n := range nodes {
			if s := n.Stats(); s.Missing != 0 || s.RefusedName != 0 {
				t.Errorf("%s: %+v", n.name, s)
			}
		}
	})
}

// Names where one begins with another, in 200 orders of joining: one table each.
func TestTheOrderOfJoiningMakesNoDifference(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		return
	}
	var digest uint64
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			c := &cluster{t: t, net: ringtest.New(lan(seed)), seeds: ips(1, 12)}
			defer c.close()
			var nodes []*node
			for i := range 12 {
				number := (i*5+int(seed)*7)%12 + 1 // 5 and 12 have no divisor in common
				nodes = append(nodes, c.join(number, func(cfg *ring.Config) { cfg.Node = fmt.Sprintf("stream-%d", number) }))
			}
			c.converge(10*time.Second, nodes...)
			if d := nodes[0].View().Digest(); digest == 0 {
				digest = d
			} else if d != digest {
				t.Errorf("digest %x, before %x", d, digest)
			}
		})
	}
}
