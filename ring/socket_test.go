package ring_test

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"rillkeep.dev/rillkeep/ring"
)

// The same over sockets: three nodes, encrypted, one that is refused for each
// reason, one that leaves and one that dies.
func TestThreeNodesOverSockets(t *testing.T) {
	before := goleak.IgnoreCurrent()
	defer func() {
		// The last probe of memberlist ends by its timeout.
		err := goleak.Find(before)
		for late := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(late); {
			err = goleak.Find(before)
		}
		if err != nil {
			t.Error(err)
		}
	}()
	var seeds []string
	open := func(node string, change func(*ring.Config)) (*ring.Ring, error) {
		cfg := ring.Config{
			Node: node, Incarnation: "a", Secrets: []string{secret}, Bind: "127.0.0.1:0",
			Seeds: ring.Static{Addrs: seeds}, Log: slog.New(slog.DiscardHandler),
			ProbeInterval: 300 * time.Millisecond, SuspicionMult: 3,
		}
		if change != nil {
			change(&cfg)
		}
		return ring.Open(t.Context(), cfg)
	}
	var rings []*ring.Ring
	for _, node := range []string{"one", "two", "three"} {
		r, err := open(node, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		if err := r.SetState(t.Context(), ring.Active); err != nil {
			t.Fatal(err)
		}
		if seeds == nil {
			seeds = []string{r.Addr()}
		}
		rings = append(rings, r)
	}
	await(t, 3, rings...)

	for _, c := range []struct {
		change func(*ring.Config)
		want   error
	}{
		{func(cfg *ring.Config) { cfg.Secrets = []string{"some other secret"} }, ring.ErrSecret},
		{func(cfg *ring.Config) { cfg.Cluster = "other" }, ring.ErrCluster},
		{func(cfg *ring.Config) { cfg.Settings.Partitions = 271 }, ring.ErrSettings},
		{func(cfg *ring.Config) { cfg.Node, cfg.Incarnation = "two", "b" }, ring.ErrNameTaken},
	} {
		if r, err := open("four", c.change); !errors.Is(err, c.want) {
			t.Errorf("%v: %v", c.want, err)
			if err == nil {
				_ = r.Close()
			}
		}
	}
	await(t, 3, rings...)

	if err := rings[1].Leave(t.Context()); err != nil {
		t.Error(err)
	}
	await(t, 2, rings[0], rings[2])
	if err := rings[2].Close(); err != nil {
		t.Error(err)
	}
	await(t, 1, rings[0])
}

// await waits until every ring's table has n names, and all have one digest.
func await(t *testing.T, n int, rings ...*ring.Ring) {
	t.Helper()
	late := time.After(30 * time.Second)
	for _, r := range rings {
		for {
			changed, first := r.Changed(), rings[0].Changed()
			if v := r.View(); len(v.Names()) == n && v.Digest() == rings[0].View().Digest() {
				break
			}
			select {
			case <-changed:
			case <-first:
			case <-late:
				t.Fatalf("%s has %v", r.Addr(), r.View().Names())
			}
		}
	}
}

func TestTheAddressOfAllIsNeverAdvertised(t *testing.T) {
	for _, bind := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
		r, err := ring.Open(t.Context(), ring.Config{
			Node: "one", Incarnation: "a", Secrets: []string{secret}, Bind: bind, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			if !strings.Contains(err.Error(), "Advertise") { // a machine with loopback only
				t.Errorf("%s: %v", bind, err)
			}
			continue
		}
		host, port, err := net.SplitHostPort(r.Addr())
		if err != nil || net.ParseIP(host).IsUnspecified() || port == "0" {
			t.Errorf("%s advertises %s", bind, r.Addr())
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAPortInUseIsAnError(t *testing.T) {
	open := func(bind string) (*ring.Ring, error) {
		return ring.Open(t.Context(), ring.Config{
			Node: "one", Incarnation: "a", Secrets: []string{secret}, Bind: bind, Log: slog.New(slog.DiscardHandler),
		})
	}
	r, err := open("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if other, err := open(r.Addr()); err == nil {
		_ = other.Close()
		t.Error("two listen on one port")
	}
}
