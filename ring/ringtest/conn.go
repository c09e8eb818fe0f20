package ringtest

import (
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// conn is one end of a stream: it reads from one pipe and writes to the other.
type conn struct {
	host          *Host
	local, remote netip.AddrPort
	in, out       *pipe
	read, write   deadline
	close         sync.Once
}

// connPair makes both ends of a stream. Callers hold the network's lock.
func connPair(from, to *Host, address netip.AddrPort) (near, far *conn) {
	source := netip.AddrPortFrom(from.addr, uint16(30000+len(from.conns)%30000))
	there, back := newPipe(from, to), newPipe(to, from)
	near = &conn{host: from, local: source, remote: address, in: back, out: there, read: newDeadline(), write: newDeadline()}
	far = &conn{host: to, local: address, remote: source, in: there, out: back, read: newDeadline(), write: newDeadline()}
	return near, far
}

func (c *conn) Read(b []byte) (int, error)  { return c.in.read(b, &c.read) }
func (c *conn) Write(b []byte) (int, error) { return c.out.write(b, &c.write) }

// Close ends the stream: the peer reads what was written before, then the end.
func (c *conn) Close() error {
	c.end(func() {
		c.out.finish(nil)
		c.in.abandon()
	})
	return nil
}

// reset ends the stream at both ends at once, as far as the way is open.
func (c *conn) reset() {
	c.end(func() {
		c.out.finish(syscall.ECONNRESET)
		c.in.abandon()
	})
}

func (c *conn) end(do func()) {
	c.close.Do(func() {
		c.host.network.mu.Lock()
		delete(c.host.conns, c)
		c.host.network.mu.Unlock()
		do()
		c.read.set(time.Time{})
		c.write.set(time.Time{})
	})
}

func (c *conn) LocalAddr() net.Addr  { return net.TCPAddrFromAddrPort(c.local) }
func (c *conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }

func (c *conn) SetDeadline(t time.Time) error {
	c.read.set(t)
	c.write.set(t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.read.set(t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.write.set(t)
	return nil
}

// deadline is a point in time that may move while somebody waits for it.
type deadline struct {
	mu      *sync.Mutex
	timer   *time.Timer
	expired chan struct{} // closed once it has passed
}

func newDeadline() deadline { return deadline{mu: new(sync.Mutex), expired: make(chan struct{})} }

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.expired // the timer fired; what it closes is closed, or about to be
	}
	d.timer = nil
	select {
	case <-d.expired:
		d.expired = make(chan struct{})
	default:
	}
	if t.IsZero() {
		return
	}
	expired := d.expired
	if left := time.Until(t); left > 0 {
		d.timer = time.AfterFunc(left, func() { close(expired) })
	} else {
		close(expired)
	}
}

func (d *deadline) passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.expired
}

func (d *deadline) over() bool {
	select {
	case <-d.passed():
		return true
	default:
		return false
	}
}
