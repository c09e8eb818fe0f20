package clustertest

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// balancer leads each connection to a node that lives, as what stands before a
// cluster does. Its connections end with the node's, and with the test.
type balancer struct {
	c      *cluster
	listen net.Listener
	open   sync.WaitGroup

	mu    sync.Mutex // guards below
	conns map[net.Conn]bool
	over  bool
	turn  int
}

// balance starts one.
func (c *cluster) balance(t testing.TB) *balancer {
	t.Helper()
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{c: c, listen: listen, conns: map[net.Conn]bool{}}
	b.open.Go(b.accept)
	t.Cleanup(b.close)
	return b
}

func (b *balancer) url() string { return "http://" + b.listen.Addr().String() }

func (b *balancer) close() {
	_ = b.listen.Close()
	b.mu.Lock()
	b.over = true
	for conn := range b.conns {
		_ = conn.Close()
	}
	b.mu.Unlock()
	b.open.Wait()
}

func (b *balancer) accept() {
	for {
		conn, err := b.listen.Accept()
		if err != nil {
			return
		}
		if b.keep(conn) {
			b.open.Go(func() { b.lead(conn) })
		}
	}
}

// keep has a connection end with the balancer.
func (b *balancer) keep(conn net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		_ = conn.Close()
		return false
	}
	b.conns[conn] = true
	return true
}

func (b *balancer) drop(conn net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, conn)
	_ = conn.Close()
}

// lead copies a connection's bytes to and from a node.
func (b *balancer) lead(conn net.Conn) {
	defer b.drop(conn)
	to := b.dial()
	if to == nil || !b.keep(to) {
		return
	}
	defer b.drop(to)
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(conn, to) // until either has had enough
		_ = conn.Close()
	})
	_, _ = io.Copy(to, conn)
	_ = to.(*net.TCPConn).CloseWrite()
	back.Wait()
}

// dial connects to one node after the other until one is there, or none.
func (b *balancer) dial() net.Conn {
	b.mu.Lock()
	first := b.turn
	b.turn++
	b.mu.Unlock()
	for i := range b.c.nodes {
		at, ok := strings.CutPrefix(b.c.through(first+i).url(), "http://")
		if !ok {
			continue
		}
		if conn, err := net.Dial("tcp", at); err == nil {
			return conn
		}
	}
	return nil
}
