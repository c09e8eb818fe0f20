package node

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"rillkeep.dev/rillkeep/router"
)

const (
	// keptFiles, and one in sixteen of those that the process may have, are file
	// descriptors for what is not the public's: the store and the other nodes.
	keptFiles = 64

	// toldToWait is how many connections beyond those that there is room for are told
	// so. Others are closed.
	toldToWait = 32
)

// room is how many connections leave files enough for all else.
func room(files uint64) int {
	kept := keptFiles + toldToWait + files/16
	if files <= kept {
		return 1 // a node is not of much use so, but not of none
	}
	return int(min(files-kept, 1<<30))
}

// crowd is a listener that lets in a bounded number of connections. A server that
// accepts until no descriptor is left reaches neither its store nor its cluster.
type crowd struct {
	net.Listener
	most         int
	open, turned atomic.Int64
}

// gather bounds the public's connections.
func (n *Node) gather(listener net.Listener, most int) net.Listener {
	if most == 0 {
		most = room(cmp.Or(files(), 1<<30))
	}
	c := &crowd{Listener: listener, most: most}
	n.metrics.ObserveConnections(c.open.Load, c.turned.Load)
	return c
}

// Accept answers a connection that is to be served, or told that it can't be.
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		n := c.open.Add(1)
		v := &visit{crowd: c, late: n > int64(c.most)}
		if v.late {
			c.turned.Add(1)
		}
		switch tcp, ok := conn.(*net.TCPConn); {
		case n > int64(c.most+toldToWait):
			_ = conn.Close()
			c.open.Add(-1)
		case ok: // who writes to a socket directly finds it
			expectAnswers(tcp, goneTime)
			return &tcpVisitor{TCPConn: tcp, visit: v}, nil
		default:
			return &visitor{conn, v}, nil
		}
	}
}

// visit is what is known of a connection of a crowd.
type visit struct {
	crowd *crowd
	late  bool // there was no room
	once  sync.Once
}

func (v *visit) isLate() bool { return v.late }

func (v *visit) left() { v.once.Do(func() { v.crowd.open.Add(-1) }) }

type tcpVisitor struct {
	*net.TCPConn
	*visit
	ahead ahead
}

func (v *tcpVisitor) Read(p []byte) (int, error) { return v.ahead.read(v.TCPConn, p) }

func (v *tcpVisitor) Close() error {
	defer v.left()
	return v.TCPConn.Close()
}

type visitor struct {
	net.Conn
	*visit
}

func (v *visitor) Close() error {
	defer v.left()
	return v.Conn.Close()
}

type lateKey struct{}

// withVisit is an http.Server's ConnContext.
func withVisit(ctx context.Context, conn net.Conn) context.Context {
	if v, ok := conn.(interface{ isLate() bool }); ok && v.isLate() {
		return context.WithValue(ctx, lateKey{}, true)
	}
	return ctx
}

// receive serves a request, unless there is no room for its connection. That the node
// lives it says to all.
func (n *Node) receive(w http.ResponseWriter, req *http.Request) {
	if req.Context().Value(lateKey{}) == nil {
		n.public.ServeHTTP(w, req)
		return
	}
	router.Crowded(w, req)
}
