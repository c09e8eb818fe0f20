package ringtest

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"
)

// Options shape a network. The zero value is one without latency or loss.
type Options struct {
	Latency time.Duration // of a packet, and of bytes on a stream, one way
	Jitter  time.Duration // of packets, added to the latency at random, up to this
	Loss    float64       // of packets, 0 to 1
	Seed    uint64        // of what is random
}

// Network joins hosts. All its methods are safe for concurrent use.
type Network struct {
	options Options

	mu      sync.Mutex
	random  *rand.Rand
	hosts   map[netip.Addr]*Host
	cuts    map[way]bool
	changed chan struct{} // closed, and made anew, when what passes changes
}

type way struct{ from, to netip.Addr }

// New makes a network without hosts.
func New(options Options) *Network {
	return &Network{
		options: options,
		random:  rand.New(rand.NewPCG(options.Seed, 0)),
		hosts:   make(map[netip.Addr]*Host),
		cuts:    make(map[way]bool),
		changed: make(chan struct{}),
	}
}

// Host starts a host. One that is there already under the address is replaced, as
// if another machine had got its address: the old one reaches nobody any more. It
// panics if ip is no IP address.
func (n *Network) Host(ip string) *Host {
	h := newHost(n, netip.MustParseAddr(ip))
	n.change(func() {
		if old := n.hosts[h.addr]; old != nil {
			old.state = crashed
		}
		n.hosts[h.addr] = h
	})
	return h
}

// Cut stops everything between each of one side and each of the other, both ways.
func (n *Network) Cut(one, other []string) {
	n.CutOneWay(one, other)
	n.CutOneWay(other, one)
}

// CutOneWay stops everything from each of one side to each of the other.
func (n *Network) CutOneWay(from, to []string) {
	n.each(from, to, func(w way) { n.cuts[w] = true })
}

// Heal undoes all cuts.
func (n *Network) Heal() {
	n.change(func() { clear(n.cuts) })
}

func (n *Network) each(from, to []string, do func(way)) {
	n.change(func() {
		for _, f := range from {
			for _, t := range to {
				if f != t {
					do(way{netip.MustParseAddr(f), netip.MustParseAddr(t)})
				}
			}
		}
	})
}

// change makes a change and wakes whoever waits for one.
func (n *Network) change(do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	do()
	close(n.changed)
	n.changed = make(chan struct{})
}

// open says whether something that from sends gets to to. Callers hold mu.
func (n *Network) open(from, to *Host) bool {
	return from.state != crashed && to.state != crashed && n.hosts[to.addr] == to &&
		!n.cuts[way{from.addr, to.addr}]
}

// packetDelay answers how long a packet takes, or that it is lost.
func (n *Network) packetDelay() (delay time.Duration, lost bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.options.Loss > 0 && n.random.Float64() < n.options.Loss {
		return 0, true
	}
	delay = n.options.Latency
	if n.options.Jitter > 0 {
		delay += time.Duration(n.random.Int64N(int64(n.options.Jitter)))
	}
	return delay, false
}
