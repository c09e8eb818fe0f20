package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// link is the way to one peer at one address: its connection and what is known
// of it.
type link struct {
	client *Client
	peer   Peer
	stamps stamper
	memory memory

	mu      sync.Mutex // guards below
	closed  bool
	conn    *connection // nil before the first
	dialing *dialing    // nil if none is under way
}

// connection is one HTTP/2 connection whose other end has proved who it is.
type connection struct {
	*http.ClientConn
	wire *wire
}

// dialing is an attempt at a connection, shared by all who want one.
type dialing struct {
	done chan struct{} // closed when the fields below are set
	conn *connection
	err  error
}

// slot is where a dial leaves the connection below TLS and HTTP/2.
type slot struct {
	mu   sync.Mutex
	wire *wire
}

type slotKey struct{}

func (s *slot) put(w *wire) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wire = w
}

func (s *slot) close() {
	s.mu.Lock()
	w := s.wire
	s.mu.Unlock()
	if w != nil {
		w.Close()
	}
}

func newLink(c *Client, to Peer) *link {
	return &link{client: c, peer: to, stamps: stamper{clock: c.cfg.Clock, session: newSession()}}
}

func (l *link) isDown() bool { return l.memory.down() }

func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	conn := l.conn
	l.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}

// connect gives the connection, or waits for the one being made.
func (l *link) connect(ctx context.Context) (*connection, error) {
	conn, d, err := l.current()
	if d == nil {
		return conn, err
	}
	select {
	case <-d.done:
		return d.conn, d.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, context.Cause(ctx))
	}
}

// current is the connection in use, if it takes another request, or else an
// attempt at the next one.
func (l *link) current() (*connection, *dialing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, nil, fmt.Errorf("%w: forgotten, or moved to another address", ErrUnreachable)
	}
	// A connection that the peer has said goodbye on takes no more, but is not
	// closed: what is under way on it ends in its own time.
	if l.conn != nil && l.conn.Err() == nil && l.conn.Available() > 0 {
		return l.conn, nil, nil
	}
	if l.dialing != nil {
		return nil, l.dialing, nil
	}
	if !l.client.begin() {
		return nil, nil, fmt.Errorf("%w: %w", ErrUnreachable, errClosed)
	}
	d := &dialing{done: make(chan struct{})}
	l.dialing = d
	go func() {
		defer l.client.tasks.Done()
		l.dial(d)
	}()
	return nil, d, nil
}

// begin counts a task in, unless the client is closed.
func (c *Client) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return false
	}
	c.tasks.Add(1)
	return true
}

// dial makes the attempt d. It does not end with the request that began it,
// since others wait, too.
func (l *link) dial(d *dialing) {
	conn, err := l.open(l.client.ctx)
	l.mu.Lock()
	l.dialing = nil
	switch {
	case err != nil:
		d.err = err
	case l.closed:
		conn.Close()
		d.err = fmt.Errorf("%w: forgotten, or moved to another address", ErrUnreachable)
	default:
		l.conn, d.conn = conn, conn
	}
	l.mu.Unlock()
	if err != nil && l.client.ctx.Err() == nil {
		l.memory.failed(err)
	}
	close(d.done)
}

// open connects, and has the peer prove who it is. Until then nothing is
// delivered, so that most errors are ErrUnreachable.
func (l *link) open(ctx context.Context) (*connection, error) {
	var s slot
	conn, err := l.shake(context.WithValue(ctx, slotKey{}, &s), &s)
	if err != nil {
		s.close()
		return nil, l.opening("connect to", err)
	}
	c := &connection{ClientConn: conn, wire: s.wire}
	hctx, cancel := context.WithTimeout(ctx, l.client.cfg.HelloTimeout)
	defer cancel()
	if err := l.hello(hctx, c); err != nil {
		c.Close()
		s.close()
		return nil, l.opening("greet", err)
	}
	l.memory.succeeded()
	return c, nil
}

// shake dials, and does the handshakes of TLS and HTTP/2.
func (l *link) shake(ctx context.Context, s *slot) (*http.ClientConn, error) {
	ctx, cancel := context.WithTimeout(ctx, l.client.cfg.DialTimeout)
	defer cancel()
	// Writing the first bytes of HTTP/2 does not look at the context.
	stop := context.AfterFunc(ctx, s.close)
	conn, err := l.client.transport.NewClientConn(ctx, l.client.scheme, l.peer.Addr)
	if !stop() && err == nil {
		conn.Close()
		err = context.Cause(ctx)
	}
	return conn, err
}

// opening says what an error on the way to a new connection means. A peer that
// refuses our certificate says so after its own part of the handshake is done;
// where it hangs up before that is read, all that is known is that it hung up.
func (l *link) opening(what string, err error) error {
	var op *net.OpError
	switch {
	case errors.Is(err, ErrNotPeer), errors.Is(err, ErrDenied), errors.Is(err, ErrUnreachable):
		return fmt.Errorf("%s %s: %w", what, l.peer.Name, err)
	case errors.As(err, &op) && op.Op == "remote error": // an alert
		return fmt.Errorf("%s %s: %w: %w", what, l.peer.Name, ErrDenied, err)
	}
	return fmt.Errorf("%s %s: %w: %w", what, l.peer.Name, ErrUnreachable, err)
}
