package ring

import (
	"errors"
	"log/slog"
	"net"
	"testing"

	"github.com/hashicorp/memberlist"
)

// Whoever comes by gossip alone, past the exchange at which one joins, is looked at,
// too.
func TestWhoCannotBeInOneRingIsKeptOutByWhateverWayItComes(t *testing.T) {
	t.Parallel()
	good := metadata{Format: metaVersion, State: Active, Settings: Settings{}.String()}
	for _, c := range []struct {
		name   string
		member string
		addr   net.IP
		change func(*metadata)
		want   error // nil for no refusal
	}{
		{"one of ours", "n1/a", net.IPv4(10, 0, 0, 1), func(*metadata) {}, nil},
		{"other settings", "n1/a", net.IPv4(10, 0, 0, 1), func(m *metadata) { m.Settings = Settings{Load: 1.25}.String() }, ErrSettings},
		{"another algorithm", "n1/a", net.IPv4(10, 0, 0, 1), func(m *metadata) { m.Settings = "consistent-v0.10.0 xxhash64 4093/100/2" }, ErrSettings},
		{"a later format", "n1/a", net.IPv4(10, 0, 0, 1), func(m *metadata) { m.Format++ }, ErrSettings},
		{"an unknown state", "n1/a", net.IPv4(10, 0, 0, 1), func(m *metadata) { m.State = 9 }, errMalformed},
		{"no state", "n1/a", net.IPv4(10, 0, 0, 1), func(m *metadata) { m.State = 0 }, errMalformed},
		{"no incarnation", "n1", net.IPv4(10, 0, 0, 1), func(*metadata) {}, errMalformed},
		{"the address of all", "n1/a", net.IPv4zero, func(*metadata) {}, errMalformed},
	} {
		meta := good
		c.change(&meta)
		node := &memberlist.Node{Name: c.member, Addr: c.addr, Port: DefaultPort, Meta: meta.encode()}
		d := &delegate{settings: Settings{}, roster: newRoster(Member{Name: "n0/a", Node: "n0"}), refused: newRefusals(newJournal(slog.New(slog.DiscardHandler)))}
		alive, merge := d.NotifyAlive(node), d.NotifyMerge([]*memberlist.Node{node})
		if c.want == nil {
			if alive != nil || merge != nil || len(d.refused.counts) > 0 {
				t.Errorf("%s: %v, %v", c.name, alive, merge)
			}
			continue
		}
		if alive == nil || merge == nil || c.want != errMalformed && (!errors.Is(alive, c.want) || !errors.Is(merge, c.want)) {
			t.Errorf("%s: %v, %v", c.name, alive, merge)
		}
		if n := d.refused.count(c.want); n != 2 {
			t.Errorf("%s: counted %d times: %v", c.name, n, d.refused.counts)
		}
	}
}

func TestNoTwoClustersHaveOneGossipKey(t *testing.T) {
	t.Parallel()
	keys := map[string]string{}
	for _, secret := range []string{"a secret that is long enough", "another that is long enough"} {
		for _, cluster := range []string{"rillkeep", "staging"} {
			key, err := gossipKey(secret, cluster)
			if err != nil || len(key) != 32 {
				t.Fatalf("a key of %d bytes, %v", len(key), err)
			}
			if of, taken := keys[string(key)]; taken {
				t.Errorf("%s of %s has the key of %s", secret, cluster, of)
			}
			keys[string(key)] = secret + " of " + cluster
		}
	}
}
