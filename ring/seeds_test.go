package ring_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/ring"
)

// names is a resolver that knows what a test tells it.
type names struct {
	mu    sync.Mutex
	hosts map[string][]string
	srv   map[string][]*net.SRV
}

func (n *names) set(host string, ips ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hosts == nil {
		n.hosts = make(map[string][]string)
	}
	n.hosts[host] = ips
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.hosts[host]) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	var all []netip.Addr
	for _, ip := range n.hosts[host] {
		all = append(all, netip.MustParseAddr(ip))
	}
	return all, nil
}

func (n *names) LookupSRV(_ context.Context, _, _, name string) (string, []*net.SRV, error) {
	if len(n.srv[name]) == 0 {
		return "", nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return name, n.srv[name], nil
}

func TestSeedsBecomeAddresses(t *testing.T) {
	t.Parallel()
	known := &names{
		hosts: map[string][]string{
			"a.example": {"10.0.0.1", "10.0.0.2", "fd00::1"},
			"b.example": {"::ffff:10.0.0.3"},
		},
		srv: map[string][]*net.SRV{"_gossip._tcp.example": {
			{Target: "a.example.", Port: 7000}, {Target: "b.example.", Port: 7001}, {Target: "gone.example.", Port: 7002},
		}},
	}
	for _, c := range []struct {
		name  string
		seeds ring.Seeds
		want  []string
		fails string
	}{
		{"no seeds", ring.Static{}, nil, ""},
		{"addresses with and without port", ring.Static{Addrs: []string{"10.0.0.9", "10.0.0.9:70", "[fd00::9]:70", "fd00::9", "[fd00::9]"}},
			[]string{"10.0.0.9:7946", "10.0.0.9:70", "[fd00::9]:70", "[fd00::9]:7946", "[fd00::9]:7946"}, ""},
		{"names among addresses", ring.Static{Addrs: []string{"b.example:70", "10.0.0.9"}, Resolver: known},
			[]string{"10.0.0.3:70", "10.0.0.9:7946"}, ""},
		{"a name that is unknown spoils no other", ring.Static{Addrs: []string{"gone.example", "b.example"}, Resolver: known},
			[]string{"10.0.0.3:7946"}, "gone.example"},
		{"a port that is none", ring.Static{Addrs: []string{"10.0.0.9:http"}}, nil, "10.0.0.9:http"},
		{"A and AAAA records", ring.DNS{Name: "a.example", Resolver: known},
			[]string{"10.0.0.1:7946", "10.0.0.2:7946", "[fd00::1]:7946"}, ""},
		{"A records with a port", ring.DNS{Name: "b.example:70", Resolver: known}, []string{"10.0.0.3:70"}, ""},
		{"SRV records", ring.DNS{Name: "_gossip._tcp.example", Resolver: known},
			[]string{"10.0.0.1:7000", "10.0.0.2:7000", "[fd00::1]:7000", "10.0.0.3:7001"}, "gone.example"},
		{"no SRV records", ring.DNS{Name: "_none._tcp.example", Resolver: known}, nil, "_none._tcp.example"},
		{"no A records", ring.DNS{Name: "gone.example", Resolver: known}, nil, "gone.example"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := c.seeds.Peers(t.Context())
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("error %v, want one about %q", err, c.fails)
			}
		})
	}
}

func TestANameThatResolvesLaterIsFound(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(30), func(t *testing.T, c *cluster) {
		dns := &names{}
		seeded := func(cfg *ring.Config) { cfg.Seeds = ring.DNS{Name: "rillkeep.example", Resolver: dns} }
		nodes := []*node{c.join(1, seeded), c.join(2, seeded), c.join(3, seeded)}
		time.Sleep(5 * time.Minute)
		for _, n := range nodes {
			c.converge(0, n)
		}
		dns.set("rillkeep.example", ip(1)) // a name may know one node only, and the asking one
		c.converge(20*time.Second, nodes...)
		// What it says later counts, not what it said.
		dns.set("rillkeep.example", ip(9))
		fourth := c.join(4, seeded)
		dns.set("rillkeep.example", ip(2), ip(4))
		c.converge(20*time.Second, append(nodes, fourth)...)
	})
}

// stuck is what a database that is down is like.
type stuck struct{}

func (stuck) Peers(ctx context.Context) ([]string, error) {
	<-ctx.Done()
	return []string{"not an address"}, errors.New("no database")
}

func TestSeedsThatHangHoldUpNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, lan(31), func(t *testing.T, c *cluster) {
		begin := time.Now()
		first := c.join(1, func(cfg *ring.Config) { cfg.Seeds = stuck{} })
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("opened after %v", took)
		}
		c.seeds = ips(1, 1)
		second := c.join(2, nil)
		c.converge(time.Second, first, second)
		if !slices.Contains(first.View().Names(), second.name) {
			t.Error("the views stand still")
		}
	})
}
