package peer_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
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
	conns     []*line
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
	near, far := net.Pipe()
	c := &line{Conn: near, cut: make(chan struct{}), closed: make(chan struct{})}
	n.mu.Lock()
	n.conns = append(n.conns, c)
	n.mu.Unlock()
	select {
	case l.conns <- far:
		return c, nil
	case <-l.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
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
	for _, c := range n.conns {
		c.once.Do(func() { close(c.cut) })
	}
}

// line is a connection that can be cut.
type line struct {
	net.Conn
	once, closing sync.Once
	cut, closed   chan struct{}
}

func (c *line) isCut() bool {
	select {
	case <-c.cut:
		return true
	default:
		return false
	}
}

func (c *line) Write(p []byte) (int, error) {
	if c.isCut() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *line) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if !c.isCut() {
			return n, err
		}
		if err != nil {
			<-c.closed
			return 0, net.ErrClosed
		}
	}
}

func (c *line) Close() error {
	c.closing.Do(func() { close(c.closed) })
	if c.isCut() {
		return nil // the other end hears nothing of it
	}
	return c.Conn.Close()
}

// hangUp closes what cut connections left open.
func (n *network) hangUp() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		c.Conn.Close()
	}
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
	status, body, err := ask(t.Context(), c, to, req)
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
