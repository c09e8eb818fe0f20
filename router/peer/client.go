package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	defaultDialTimeout  = 400 * time.Millisecond
	defaultHelloTimeout = time.Second
	defaultIdleTimeout  = 12500 * time.Millisecond
)

// Config is what a [Client] is made of.
type Config struct {
	Identity

	// Dial opens a connection to an address; it must return when ctx ends. nil
	// means TCP.
	Dial        func(ctx context.Context, addr string) (net.Conn, error)
	DialTimeout time.Duration // for Dial and the TLS handshake; 0 means 400ms

	// HelloTimeout is how long a new connection's peer may take to prove who it is
	// before a request is sent to it. 0 means 1s.
	HelloTimeout time.Duration

	// IdleTimeout is how long a read of an answer's body may wait for a byte. The
	// sender is expected to send something, if only a ping, well within it, unless
	// the request was a quiet one; see [Quiet]. 0 means 12.5s.
	IdleTimeout time.Duration

	// Clock is the time in milliseconds; for tests. nil means the wall clock's at
	// the start and a monotonic one from then on.
	Clock func() int64
}

// Client sends requests to other members, over one connection to each. It is
// safe for concurrent use.
type Client struct {
	cfg       Config
	keys      keyring
	transport *http.Transport
	scheme    string

	ctx   context.Context // ends with Close
	stop  context.CancelFunc
	tasks sync.WaitGroup // dials

	mu    sync.Mutex // guards below
	links map[string]*link
	wires map[*wire]struct{}
}

// New checks cfg, loads its certificates and returns a client that connects when
// it is first asked to.
func New(cfg Config) (*Client, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	keys, err := newKeyring(cfg.Identity)
	if err != nil {
		return nil, err
	}
	c := &Client{
		cfg: cfg.withDefaults(), keys: keys, scheme: "http",
		links: make(map[string]*link), wires: make(map[*wire]struct{}),
	}
	c.transport = &http.Transport{
		DialContext:            c.dial,
		Protocols:              protocols(cfg.TLS != nil),
		HTTP2:                  http2Config(),
		DisableCompression:     true, // it would hold back what is to be seen at once
		MaxResponseHeaderBytes: maxHeader,
	}
	if cfg.TLS != nil {
		c.scheme = "https"
		if c.transport.TLSClientConfig, err = cfg.TLS.config(); err != nil {
			return nil, err
		}
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c, nil
}

func (cfg Config) withDefaults() Config {
	if cfg.Dial == nil {
		var d net.Dialer
		cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	if cfg.DialTimeout <= 0 {
		cfg.DialTimeout = defaultDialTimeout
	}
	if cfg.HelloTimeout <= 0 {
		cfg.HelloTimeout = defaultHelloTimeout
	}
	if cfg.IdleTimeout <= 0 {
		cfg.IdleTimeout = defaultIdleTimeout
	}
	if cfg.Clock == nil {
		cfg.Clock = monotonic()
	}
	return cfg
}

// Do sends req to a peer and returns its answer, whose header is authentic and
// whose body must be closed. Of req's URL path and query count. ctx bounds the
// whole exchange, the reading of the answer's body, too; req's own context does
// not count. req is not altered, but its body is used up, and closing it must end a
// read of it: that is waited for when the exchange ends.
func (c *Client) Do(ctx context.Context, to Peer, req *http.Request) (*http.Response, error) {
	x, err := c.prepare(ctx, to, req)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	resp, err := x.run(ctx)
	x.body.settle(err != nil)
	return resp, err
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

var errClosed = errors.New("client is closed")

// link gives the link to a peer; a new one if the peer's address has changed.
func (c *Client) link(to Peer) (*link, error) {
	c.mu.Lock()
	if c.ctx.Err() != nil {
		c.mu.Unlock()
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, errClosed)
	}
	old := c.links[to.Name]
	if old != nil && old.peer.Addr == to.Addr {
		c.mu.Unlock()
		return old, nil
	}
	l := newLink(c, to)
	c.links[to.Name] = l
	c.mu.Unlock()
	if old != nil {
		old.close()
	}
	return l, nil
}

// Forget closes the connection to a peer that is gone. Requests under way fail.
func (c *Client) Forget(name string) {
	c.mu.Lock()
	l := c.links[name]
	delete(c.links, name)
	c.mu.Unlock()
	if l != nil {
		l.close()
	}
}

// Close ends all connections, and with them all requests and bodies, and waits
// for what the client runs. It may be called twice.
func (c *Client) Close() error {
	c.mu.Lock()
	c.stop()
	links := c.links
	c.links = nil
	wires := make([]*wire, 0, len(c.wires))
	for w := range c.wires {
		wires = append(wires, w)
	}
	c.mu.Unlock()
	for _, l := range links {
		l.close()
	}
	for _, w := range wires {
		w.Close()
	}
	c.tasks.Wait()
	return nil
}

// dial is the transport's. It leaves the connection in the slot that ctx brings.
func (c *Client) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	conn, err := c.cfg.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	var w *wire
	w = newWire(conn, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.wires, w)
	})
	c.mu.Lock()
	c.wires[w] = struct{}{}
	c.mu.Unlock()
	slot := ctx.Value(slotKey{}).(*slot)
	slot.put(w)
	if c.ctx.Err() != nil {
		w.Close()
	}
	return w, nil
}
