package peer_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/router/peer"
)

const secret = peer.Secret("the secret of the tests, long enough")

func identity(name string) peer.Identity {
	return peer.Identity{Name: name, Cluster: "test", Secrets: []peer.Secret{secret}}
}

// network joins listeners and dials by pipes, so that a bubble's clock rules all.
type network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	dials     map[string]int
	cables    []*cable
}

func newNetwork() *network {
	return &network{listeners: make(map[string]*listener), dials: make(map[string]int)}
}

type listener struct {
	addr  string
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (n *network) listen(addr string) *listener {
	l := &listener{addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[addr] = l
	return l
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *listener) Addr() net.Addr { return address(l.addr) }

type address string

func (a address) Network() string { return "pipe" }
func (a address) String() string  { return string(a) }

// Dial connects to a listener; without one it is refused.
func (n *network) Dial(ctx context.Context, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[addr]
	n.dials[addr]++
	n.mu.Unlock()
	if l == nil {
		return nil, errors.New("connection refused")
	}
	near, far, c := newCable()
	n.mu.Lock()
	n.cables = append(n.cables, c)
	n.mu.Unlock()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.done:
		err := errors.New("connection refused")
		c.hangUp()
		return nil, err
	case <-ctx.Done():
		c.hangUp()
		return nil, ctx.Err()
	}
}

func (n *network) dialled(addr string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials[addr]
}

// cut makes all present connections half-open: what is sent gets lost, nobody is
// told.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.cables {
		c.cut.Store(true)
	}
}

// hangUp closes all present connections, also those that are cut.
func (n *network) hangUp() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.cables {
		c.hangUp()
	}
}

// cable joins two connections, with room for what is under way, as a kernel has.
type cable struct {
	cut  atomic.Bool
	a, b net.Conn // the inner ends
}

func newCable() (near, far net.Conn, c *cable) {
	c = &cable{}
	near, c.a = net.Pipe()
	far, c.b = net.Pipe()
	c.carry(c.a, c.b)
	c.carry(c.b, c.a)
	return near, far, c
}

func (c *cable) hangUp() { c.a.Close(); c.b.Close() }

// carry takes what comes from one end to the other, until either is closed.
func (c *cable) carry(from, to net.Conn) {
	underWay := make(chan []byte, 1<<10)
	go func() {
		defer close(underWay)
		buf := make([]byte, 64<<10)
		for {
			n, err := from.Read(buf)
			if err != nil {
				return
			}
			underWay <- bytes.Clone(buf[:n])
		}
	}()
	go func() {
		for p := range underWay {
			if !c.cut.Load() {
				to.Write(p)
			}
		}
		if !c.cut.Load() {
			to.Close()
		}
	}()
}

// serve starts a member's server; it is closed with the test.
func (n *network) serve(t testing.TB, cfg peer.ServerConfig, addr string) *peer.Server {
	t.Helper()
	s, err := peer.NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l := n.listen(addr)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s
}

// client makes a member's client; it is closed with the test.
func (n *network) client(t testing.TB, cfg peer.Config) *peer.Client {
	t.Helper()
	cfg.Dial = n.Dial
	c, err := peer.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// pair is a server b at b:1 and a client a of it.
func (n *network) pair(t testing.TB, h http.Handler) (*peer.Client, peer.Peer) {
	t.Helper()
	n.serve(t, peer.ServerConfig{Identity: identity("b"), Handler: h}, "b:1")
	return n.client(t, peer.Config{Identity: identity("a")}), peer.Peer{Name: "b", Addr: "b:1"}
}

func get(path string) *http.Request {
	req, err := http.NewRequest(http.MethodGet, "http://x"+path, nil)
	if err != nil {
		panic(err)
	}
	return req
}

// ask sends a request and reads the whole answer.
func ask(ctx context.Context, c *peer.Client, to peer.Peer, req *http.Request) (int, string, error) {
	resp, err := c.Do(ctx, to, req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// asks is ask for a test in which all must go well.
func asks(t testing.TB, c *peer.Client, to peer.Peer, req *http.Request) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	status, body, err := ask(ctx, c, to, req)
	if err != nil || status != http.StatusOK {
		t.Fatalf("answer: status %d, %v", status, err)
	}
	return body
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	for _, kind := range []error{peer.ErrUnreachable, peer.ErrBroken, peer.ErrNotPeer, peer.ErrDenied, peer.ErrLoop} {
		if errors.Is(err, kind) != (kind == want) {
			t.Errorf("got error %v, want one that is %v alone", err, want)
			return
		}
	}
}

func hello(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }

// took gives how long f took.
func took(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}
