package peer

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// wire is a connection that knows when something last came on it.
type wire struct {
	net.Conn
	since  time.Time    // for its monotonic part
	heard  atomic.Int64 // nanoseconds after since
	once   sync.Once
	closed func() // called once, when the connection is closed
	err    error
}

func newWire(conn net.Conn, closed func()) *wire {
	return &wire{Conn: conn, closed: closed, since: time.Now()}
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if n > 0 {
		w.heard.Store(int64(time.Since(w.since)))
	}
	return n, err
}

func (w *wire) Close() error {
	w.once.Do(func() {
		w.err = w.Conn.Close()
		w.closed()
	})
	return w.err
}

// silence is for how long nothing has come.
func (w *wire) silence() time.Duration {
	return time.Since(w.since) - time.Duration(w.heard.Load())
}

// underTLS gives what a connection runs on.
func underTLS(conn net.Conn) net.Conn {
	if t, ok := conn.(*tls.Conn); ok {
		return t.NetConn()
	}
	return conn
}
