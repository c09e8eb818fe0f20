package ringtest

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// Bounds on what waits on a host.
const (
	heldPackets  = 4096 // while it is frozen
	queueStreams = 256  // not accepted yet, per port
	queuePackets = 4096 // not received yet, per port
)

type hostState uint8

const (
	running hostState = iota
	frozen
	killed
	crashed
)

// Host is a machine with one process on it. Its methods are safe for concurrent
// use.
type Host struct {
	network *Network
	addr    netip.Addr

	// Guarded by network.mu.
	state hostState
	ports map[uint16]*port
	held  []func()
	conns map[*conn]struct{}
}

// port is where streams and packets arrive. Its channels are never closed.
type port struct {
	streams chan net.Conn
	packets chan packet
	done    chan struct{}
}

func newHost(n *Network, addr netip.Addr) *Host {
	return &Host{network: n, addr: addr, ports: make(map[uint16]*port), conns: make(map[*conn]struct{})}
}

// IP answers the host's address.
func (h *Host) IP() string { return h.addr.String() }

// Freeze stops the process as SIGSTOP does, as far as others can see: it receives
// nothing and sends nothing, yet its kernel takes what comes.
func (h *Host) Freeze() {
	h.network.change(func() {
		if h.state == running {
			h.state = frozen
		}
	})
}

// Thaw lets the process go on, with everything that came in the meantime.
func (h *Host) Thaw() {
	var held []func()
	h.network.change(func() {
		if h.state == frozen {
			h.state = running
			held, h.held = h.held, nil
		}
	})
	for _, deliver := range held {
		deliver()
	}
}

// Crash takes the host off the network without a word, for good.
func (h *Host) Crash() {
	h.network.change(func() { h.state = crashed })
}

// Kill ends the process as SIGKILL does: its peers' streams are reset, dials are
// refused.
func (h *Host) Kill() {
	var conns []*conn
	h.network.change(func() {
		if h.state == crashed {
			return
		}
		h.state = killed
		for c := range h.conns {
			conns = append(conns, c)
		}
	})
	for _, c := range conns {
		c.reset()
	}
}

// bind opens a port; 0 picks a free one.
func (h *Host) bind(number uint16) (*port, uint16, error) {
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	if number == 0 {
		for number = 20000; h.ports[number] != nil; number++ {
		}
	}
	if h.ports[number] != nil {
		return nil, 0, fmt.Errorf("listen on %s: %w", netip.AddrPortFrom(h.addr, number), syscall.EADDRINUSE)
	}
	p := &port{
		streams: make(chan net.Conn, queueStreams),
		packets: make(chan packet, queuePackets),
		done:    make(chan struct{}),
	}
	h.ports[number] = p
	return p, number, nil
}

// unbind closes a port, and the streams that nobody accepted.
func (h *Host) unbind(number uint16, p *port) {
	h.network.mu.Lock()
	if h.ports[number] != p {
		h.network.mu.Unlock()
		return
	}
	delete(h.ports, number)
	close(p.done)
	h.network.mu.Unlock()
	for {
		select {
		case c := <-p.streams:
			c.(*conn).reset()
		default:
			return
		}
	}
}

// Dial opens a stream to an address of the network, IP:port, within ctx. The
// signature is that of [net/http.Transport.DialContext].
func (h *Host) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	failed := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	if err := wait(ctx, 2*h.network.options.Latency); err != nil {
		return nil, failed(err)
	}
	for {
		c, changed, err := h.connect(to)
		if err != nil {
			return nil, failed(err)
		}
		if c != nil {
			return c, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, failed(timeout(ctx))
		}
	}
}

// connect tries once; without a connection and an error the way is cut until
// changed.
func (h *Host) connect(to netip.AddrPort) (c *conn, changed <-chan struct{}, err error) {
	n := h.network
	n.mu.Lock()
	defer n.mu.Unlock()
	peer := n.hosts[to.Addr()]
	if peer == nil || !n.open(h, peer) || !n.open(peer, h) || h.state == frozen {
		return nil, n.changed, nil
	}
	p := peer.ports[to.Port()]
	if p == nil || peer.state == killed || h.state == killed {
		return nil, nil, syscall.ECONNREFUSED
	}
	near, far := connPair(h, peer, to)
	select {
	case p.streams <- far:
		h.conns[near], peer.conns[far] = struct{}{}, struct{}{}
		return near, nil, nil
	default:
		return nil, nil, syscall.ECONNREFUSED
	}
}

// wait lets a duration pass.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return timeout(ctx)
	}
}

// timeout is the error of a dial that took too long, in net's words.
func timeout(ctx context.Context) error {
	if ctx.Err() == context.DeadlineExceeded {
		return os.ErrDeadlineExceeded
	}
	return ctx.Err()
}
