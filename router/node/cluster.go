package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/ring"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/peer"
	"rillkeep.dev/rillkeep/router/wire"
)

// Defaults of Cluster.
const (
	DefaultGossipListen = ":7946"
	DefaultPeerListen   = ":7947"
	DefaultCluster      = "rillkeep"
)

// Cluster makes a node one of those that share its store: streams are spread over
// them, and each serves the readers and producers of all. What it needs is a
// secret; nodes find each other by their store.
type Cluster struct {
	// Secrets, of 16 bytes at least, are what nodes know each other by: the first
	// is used, all are accepted, so that a secret can be changed while nodes run.
	Secrets []string

	Name         string   // of the cluster; "" means DefaultCluster
	GossipListen string   // host:port, UDP and TCP; "" means DefaultGossipListen
	PeerListen   string   // host:port, for requests between nodes; "" means DefaultPeerListen
	Advertise    string   // host at which others reach this node; "" means the listeners', or this machine's own
	Join         []string // host:port of other nodes' gossip, beside those that the store knows
	JoinDNS      string   // a name whose records are as much: A and AAAA, or SRV if it begins with an underscore

	// FlyReplay answers requests for other nodes with Fly.io's fly-replay header,
	// naming the machine by the node's name, in place of sending them on.
	FlyReplay bool

	// TLS, between nodes; nil means that they speak clear text, signed by the secret.
	TLS *peer.TLS

	// For tests: in place of sockets.
	Transport ring.Transport
	Listener  net.Listener
	Dial      func(ctx context.Context, addr string) (net.Conn, error)
	Gossip    ring.Config // its times only
}

// member is this node in its cluster. It implements router.Cluster.
type member struct {
	node   *Node
	self   string
	ring   *ring.Ring
	client *peer.Client
	server *peer.Server
	inner  lateHandler // for other nodes

	stop    context.CancelFunc
	running sync.WaitGroup
}

// joinCluster makes the node known to the others, as one that owns nothing yet.
func (n *Node) joinCluster(ctx context.Context, cfg Config, name, incarnation string) (err error) {
	if cfg.Cluster == nil {
		return nil
	}
	c := *cfg.Cluster
	secrets := make([]peer.Secret, len(c.Secrets))
	for i, s := range c.Secrets {
		secrets[i] = peer.Secret(s)
	}
	m := &member{node: n, self: name + "/" + incarnation}
	id := peer.Identity{Name: m.self, Cluster: cmp.Or(c.Name, DefaultCluster), Secrets: secrets, TLS: c.TLS}
	if m.client, err = peer.New(peer.Config{Identity: id, Dial: c.Dial}); err != nil {
		return configError(err)
	}
	if m.server, err = peer.NewServer(peer.ServerConfig{
		Identity: id, Handler: &m.inner, Refused: n.metrics.PeerRefused, Logger: n.log,
	}); err != nil {
		return configError(err)
	}
	listener := c.Listener
	if listener == nil {
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", cmp.Or(c.PeerListen, DefaultPeerListen)); err != nil {
			return fmt.Errorf("listen for other nodes (--peer-listen): %w", err)
		}
	}
	n.serving.Go(func() error {
		if err := m.server.Serve(listener); err != nil { // who can't be asked must not own streams
			n.fail()
			return fmt.Errorf("serve other nodes: %w", err)
		}
		return nil
	})
	n.member = m // from here on close ends it

	g := c.Gossip
	g.Node, g.Incarnation, g.Version = name, incarnation, version()
	g.Cluster, g.Secrets = id.Cluster, c.Secrets
	g.Bind, g.Advertise = cmp.Or(c.GossipListen, DefaultGossipListen), c.Advertise
	g.PeerAddr, g.HTTPAddr = reachable(listener.Addr()), reachable(n.addr)
	if c.Advertise != "" { // for gossip and requests alike
		g.PeerAddr = portOf(listener.Addr())
	}
	g.Seeds, g.Transport, g.Log = n.seeds(c), c.Transport, n.log
	if m.ring, err = ring.Open(ctx, g); err != nil {
		return fmt.Errorf("join cluster: %w", err)
	}
	n.metrics.ObserveRing(m.ring.Stats)
	watch, stop := context.WithCancel(context.Background())
	m.stop = stop
	m.running.Go(func() { m.watch(watch) })
	return nil
}

// serveCluster makes the node one that owns streams.
func (n *Node) serveCluster(ctx context.Context) error {
	if n.member == nil {
		return nil
	}
	n.member.inner.set(n.router.Inner())
	if err := n.member.ring.SetState(ctx, ring.Active); err != nil {
		return fmt.Errorf("join cluster: %w", err)
	}
	return nil
}

// cluster is for router.Config.
func (n *Node) cluster() router.Cluster {
	if n.member == nil {
		return nil
	}
	return n.member
}

// relay is for actor.Config.
func (n *Node) relay() *actor.Relay {
	if n.member == nil {
		return nil
	}
	return &actor.Relay{
		Attach: func(ctx context.Context, id string, from, epoch int64) (actor.Source, int64, error) {
			return n.router.Attach(ctx, id, from, epoch)
		},
		Failed: func(f actor.Failure) { n.router.RelayFailed(f) },
	}
}

// configError makes a setting that a part refuses one of plane.ErrConfig.
func configError(err error) error { return fmt.Errorf("%w: %w", plane.ErrConfig, err) }

// reachable is an address as it is told to others: where the host is unspecified
// the ring puts the advertised one.
func reachable(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = ""
	}
	return net.JoinHostPort(host, port)
}

// portOf is an address whose host is the advertised one.
func portOf(addr net.Addr) string {
	_, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	return net.JoinHostPort("", port)
}

// version is the program's, as it was built.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	return ""
}

// watch closes the connections to members that have gone, and ends the node when
// another has its name.
func (m *member) watch(ctx context.Context) {
	known, replaced := map[string]bool{}, false
	for {
		changed := m.ring.Changed()
		now := map[string]bool{}
		for _, at := range m.ring.View().Members() {
			now[at.Name] = true
		}
		for name := range known {
			if !now[name] {
				m.client.Forget(name)
			}
		}
		known = now
		if m.ring.View().Replaced() && !replaced {
			replaced = true
			m.node.log.Error("another process has this node's name, and its place: this one stops")
			m.node.fail()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Self implements router.Cluster, as do the next ones.
func (m *member) Self() string { return m.self }

func (m *member) Owner(id string) string {
	name, _ := m.ring.View().Owner(id)
	return name
}

func (m *member) Has(name string) bool { return m.ring.View().Has(name) }

func (m *member) Takers(id string) []string {
	var takers []string
	if owner := m.Owner(id); owner != "" && owner != m.self {
		takers = append(takers, owner)
	}
	for _, name := range m.ring.View().Names() {
		if name != m.self && (len(takers) == 0 || name != takers[0]) {
			takers = append(takers, name)
		}
	}
	return takers
}

func (m *member) Waits(name string) bool {
	if name == m.self {
		return m.waits()
	}
	view := m.ring.View()
	at, ok := view.Member(name)
	return ok && at.State == ring.Waiting && view.Share(name) == 0
}

// waits is Waits of this node, which knows before the others do. One that has lost
// them all as well as its lease is cut off, and they may do as they like.
func (m *member) waits() bool {
	if m.node.lease == nil {
		return false
	}
	if m.node.lease.Held() { // what it had before the last gap may be another's
		return m.node.gaps.Load() != m.node.verified.Load()
	}
	members := m.ring.View().Members()
	if len(members) < 2 {
		return m.ring.Stats().Missing > 0
	}
	return slices.ContainsFunc(members, func(other ring.Member) bool {
		return other.Name != m.self && other.State == ring.Active
	})
}

func (m *member) Digest() string { return digestOf(m.ring.View()) }

func digestOf(view *ring.View) string { return strconv.FormatUint(view.Digest(), 16) }

func (m *member) Do(ctx context.Context, name string, req *http.Request) (*http.Response, error) {
	to, ok := m.ring.View().Member(name)
	if !ok {
		return nil, fmt.Errorf("%w: %s is not a member", peer.ErrUnreachable, name)
	}
	return m.client.Do(ctx, peer.Peer{Name: name, Addr: to.PeerAddr}, req)
}

// Describe implements router.Cluster.
func (m *member) Describe() wire.Cluster {
	view := m.ring.View()
	c := wire.Cluster{Self: m.self, Ring: digestOf(view)}
	for _, at := range view.Members() {
		c.Members = append(c.Members, wire.Member{
			Name: at.Name, Node: at.Node, State: at.State.String(), Version: at.Version,
			URL: "http://" + at.HTTPAddr, Share: view.Share(at.Name),
		})
	}
	return c
}

// gossipAddr is where others join this node; "" if there is no cluster.
func (m *member) gossipAddr() string {
	if m == nil {
		return ""
	}
	return m.ring.Addr()
}

// close ends what the node is to the others. A node that has not left first is to
// them one that died.
func (m *member) close() error {
	if m == nil {
		return nil
	}
	var errs []error
	if m.stop != nil {
		m.stop()
		m.running.Wait()
	}
	errs = append(errs, m.client.Close(), m.server.Close())
	if m.ring != nil {
		errs = append(errs, m.ring.Close())
	}
	return errors.Join(errs...)
}
