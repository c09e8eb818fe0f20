package clustertest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"rillkeep.dev/rillkeep/ring/ringtest"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store/storetest"
)

const (
	secret     = "a secret of the world's cluster"
	gossipPort = 7946
	peerPort   = 7947
	httpPort   = 8080
	drainTime  = 25 * time.Second
)

// member is a node. Its gossip has an address of its own, so that what nodes think of
// each other, and how they reach each other, can be cut apart.
type member struct {
	w            *world
	name         string
	gossip, wire *ringtest.Host
	store        *storetest.MemoryNode
	node         *node.Node
	dead         bool        // crashed, drained or closed
	died         atomic.Bool // and that by a signal
}

// start starts so many more nodes, one after the other, and waits for one ring.
func (w *world) start(nodes int) {
	w.t.Helper()
	for range nodes {
		w.join()
	}
	w.agree(20 * time.Second)
}

// join starts one more node.
func (w *world) join() *member {
	w.t.Helper()
	return w.startAt(len(w.members)+1, fmt.Sprintf("n%d", len(w.members)+1))
}

// again starts a node in place of one that is gone.
func (w *world) again(old *member) *member {
	w.t.Helper()
	for i, m := range w.members {
		if m == old {
			return w.startAt(i+1, old.name)
		}
	}
	return nil
}

func (w *world) startAt(number int, name string) *member {
	w.t.Helper()
	m := &member{
		w: w, name: name, store: w.db.Node(),
		gossip: w.net.Host(fmt.Sprintf("10.0.0.%d", number)), wire: w.net.Host(fmt.Sprintf("10.1.0.%d", number)),
	}
	transport, err := m.gossip.Transport(gossipPort)
	if err != nil {
		w.t.Fatal(err)
	}
	listen := func(port uint16) net.Listener {
		l, err := m.wire.Listen(port)
		if err != nil {
			w.t.Fatal(err)
		}
		return l
	}
	peers := listen(peerPort)
	if as := w.poses[number]; as > 0 {
		peers = posing{peers, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(fmt.Sprintf("10.1.0.%d:%d", as, peerPort)))}
	}
	peers = answering{peers, m}
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	cluster := &node.Cluster{
		Secrets: []string{secret}, Transport: transport, Listener: peers,
		Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			conn, err := m.wire.Dial(ctx, "tcp", addr)
			return watched(conn, func(b []byte) { w.sends(b, "is forwarded", m) }), err
		},
	}
	if w.change != nil {
		w.change(cluster)
	}
	m.node, err = node.Open(ctx, node.Config{
		Name: m.name, Store: locking{m.store, m}, Listener: answering{listen(httpPort), m}, Logger: w.log.logger(m.name),
		Limits: router.Limits{Ping: w.ping}, Cluster: cluster,
	})
	if err != nil {
		w.t.Fatalf("start %s: %v", name, err)
	}
	if number <= len(w.members) {
		w.members[number-1] = m
	} else {
		w.members = append(w.members, m)
	}
	return m
}

// posing is a listener that says that it is elsewhere.
type posing struct {
	net.Listener
	at net.Addr
}

func (p posing) Addr() net.Addr { return p.at }

func (m *member) httpAddr() string { return fmt.Sprintf("%s:%d", m.wire.IP(), httpPort) }

// cluster is what the member says of the others.
func (m *member) cluster() (wire.Cluster, error) {
	for i, other := range m.w.members {
		if other == m {
			c := m.w.caller(i, true, nil)
			defer c.close()
			return c.client.Cluster(m.w.ctx)
		}
	}
	return wire.Cluster{}, fmt.Errorf("%s is no member", m.name)
}

// metric is what a member counts under a name, whatever the labels.
func (m *member) metric(name string) (sum float64) {
	m.w.t.Helper()
	c := m.w.caller(m.w.index(m), true, nil)
	defer c.close()
	resp, err := (&http.Client{Transport: c.http, Timeout: callTime}).Get("http://localhost:8080/metrics")
	if err != nil {
		m.w.t.Fatal(err)
	}
	defer resp.Body.Close()
	found := false
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		label, value, _ := strings.Cut(lines.Text(), " ")
		if base, _, _ := strings.Cut(label, "{"); base != name {
			continue
		}
		if i := strings.LastIndexByte(lines.Text(), ' '); i > 0 { // labels have blanks, too
			value = lines.Text()[i+1:]
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			m.w.t.Fatal(err)
		}
		found, sum = true, sum+n
	}
	if !found {
		m.w.t.Errorf("%s has no metric %s", m.name, name)
	}
	return sum
}

// agree waits until all members that live have one ring, of all of them.
func (w *world) agree(within time.Duration) {
	w.t.Helper()
	w.until(within, "one ring", func() bool {
		rings, living := map[string]bool{}, 0
		for _, m := range w.members {
			if !m.dead {
				living++
			}
		}
		for _, m := range w.members {
			if m.dead {
				continue
			}
			c, err := m.cluster()
			active := 0
			for _, other := range c.Members {
				if other.State == "active" {
					active++
				}
			}
			if err != nil || active != living {
				return false
			}
			rings[c.Ring] = true
		}
		return len(rings) == 1
	})
}

// kill ends the node's process at once, as SIGKILL does.
func (m *member) kill() {
	m.die()
	m.bury()
}

// die is kill at any moment: what is left of the process is to be buried.
func (m *member) die() {
	m.died.Store(true)
	m.store.Kill()
	m.wire.Kill()
	m.gossip.Kill()
}

// vanish takes the node's machine away, without a word to anybody.
func (m *member) vanish() {
	m.store.Kill()
	m.wire.Crash()
	m.gossip.Crash()
	m.bury()
}

// bury ends what is left of the node in this process.
func (m *member) bury() {
	m.dead = true
	m.w.running.Go(func() { _ = m.node.Close() })
}

// freeze stops the node's process, as SIGSTOP does.
func (m *member) freeze() {
	m.store.Freeze()
	m.wire.Freeze()
	m.gossip.Freeze()
}

// thaw lets it go on.
func (m *member) thaw(late bool) {
	m.wire.Thaw()
	m.gossip.Thaw()
	m.store.Heal(late)
}

// drain stops the node as SIGTERM does.
func (m *member) drain() {
	if err := m.tryDrain(); err != nil {
		m.w.t.Errorf("drain of %s: %v", m.name, err)
	}
	m.dead = true
}

// tryDrain is drain where it need not go well. It does not set dead.
func (m *member) tryDrain() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	return m.node.Drain(ctx)
}

func (m *member) close() {
	if err := m.node.Close(); err != nil && !m.dead {
		m.w.t.Errorf("close %s: %v", m.name, err)
	}
}

// host is where a stream is, by its row.
func (w *world) host(id string) (hosting *member, others []*member) {
	w.t.Helper()
	h := w.judge.of(id)
	for _, m := range w.members {
		if len(h.row.Token) > len(m.name) && h.row.Token[:len(m.name)+1] == m.name+"/" {
			hosting = m
		} else {
			others = append(others, m)
		}
	}
	if hosting == nil {
		w.t.Fatalf("%s is at %q", id, h.row.Token)
	}
	return hosting, others
}

// index is a member's place among them.
func (w *world) index(m *member) int {
	for i, other := range w.members {
		if other == m {
			return i
		}
	}
	return -1
}

// open waits until streams are open.
func (w *world) open(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		w.until(20*time.Second, id+" is open", func() bool { return w.judge.of(id).opens > 0 })
	}
}
