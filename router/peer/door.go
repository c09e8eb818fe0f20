package peer

import (
	"container/list"
	"context"
	"net"
	"sync"
	"time"
)

const (
	proveWithin = 5 * time.Second // a connection has to prove itself so soon, else it is closed
	maxPending  = 64              // connections that have not yet
)

// door is a listener that lets in a bounded number of connections, and closes
// those that do not show within proveWithin that a member is behind them. When
// too many have yet to, the oldest of them goes: a crowd of strangers does not
// keep a member out, which proves itself at once.
type door struct {
	net.Listener
	max int

	mu      sync.Mutex // guards below
	closed  bool
	open    map[*guest]struct{}
	pending *list.List // of *guest, the oldest first
}

// guest is a connection at the door.
type guest struct {
	*wire
	door  *door
	timer *time.Timer   // nil once proven; guarded by door.mu
	place *list.Element // in pending; nil once proven or gone; guarded by door.mu
}

func newDoor(l net.Listener, most int) *door {
	return &door{Listener: l, max: most, open: make(map[*guest]struct{}), pending: list.New()}
}

// Accept answers a connection for which there is room.
func (d *door) Accept() (net.Conn, error) {
	for {
		conn, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if g := d.admit(conn); g != nil {
			return g, nil
		}
		conn.Close()
	}
}

func (d *door) admit(conn net.Conn) *guest {
	d.mu.Lock()
	var oldest *guest
	if d.pending.Len() >= maxPending || d.pending.Len() > 0 && len(d.open) >= d.max {
		oldest = d.pending.Front().Value.(*guest)
		d.drop(oldest)
	}
	var g *guest
	if !d.closed && len(d.open) < d.max {
		g = &guest{door: d}
		g.wire = newWire(conn, func() { d.leave(g) })
		g.timer = time.AfterFunc(proveWithin, func() { g.Close() })
		g.place = d.pending.PushBack(g)
		d.open[g] = struct{}{}
	}
	d.mu.Unlock()
	if oldest != nil {
		oldest.Close()
	}
	return g
}

// drop takes a guest off the lists; d.mu is held.
func (d *door) drop(g *guest) {
	d.settle(g)
	delete(d.open, g)
}

// settle ends a guest's time of trial; d.mu is held.
func (d *door) settle(g *guest) {
	if g.place != nil {
		g.timer.Stop()
		d.pending.Remove(g.place)
		g.place = nil
	}
}

func (d *door) leave(g *guest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(g)
}

// shut closes all connections and lets no more in. (Close is the listener's alone:
// a server that is being shut down closes that first.)
func (d *door) shut() {
	d.Close()
	d.mu.Lock()
	d.closed = true
	guests := make([]*guest, 0, len(d.open))
	for g := range d.open {
		guests = append(guests, g)
	}
	d.mu.Unlock()
	for _, g := range guests {
		g.Close()
	}
}

// prove says that a member is behind the connection.
func (g *guest) prove() {
	g.door.mu.Lock()
	defer g.door.mu.Unlock()
	g.door.settle(g)
}

func (g *guest) proven() bool {
	g.door.mu.Lock()
	defer g.door.mu.Unlock()
	return g.place == nil
}

type guestKey struct{}

func withGuest(ctx context.Context, conn net.Conn) context.Context {
	g, _ := underTLS(conn).(*guest)
	return context.WithValue(ctx, guestKey{}, g)
}

func guestFrom(ctx context.Context) *guest {
	g, _ := ctx.Value(guestKey{}).(*guest)
	return g
}
