package main

import (
	"io"
	"net"
	"testing"
)

// way is a way to a server that can be cut.
type way struct {
	listener net.Listener
	cuts     chan chan struct{}
}

func openWay(t *testing.T, target string) *way {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &way{listener: listener, cuts: make(chan chan struct{})}
	conns := make(chan net.Conn)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				close(conns)
				return
			}
			conns <- c
		}
	}()
	go w.run(target, conns)
	t.Cleanup(func() { _ = listener.Close() })
	return w
}

func (w *way) addr() string { return w.listener.Addr().String() }

// cut closes all connections there are.
func (w *way) cut() {
	done := make(chan struct{})
	w.cuts <- done
	<-done
}

func (w *way) run(target string, conns <-chan net.Conn) {
	var open []net.Conn
	cut := func() {
		for _, c := range open {
			_ = c.Close()
		}
		open = nil
	}
	defer cut()
	for {
		select {
		case c, ok := <-conns:
			if !ok {
				return
			}
			to, err := net.Dial("tcp", target)
			if err != nil {
				_ = c.Close()
				continue
			}
			open = append(open, c, to)
			go func() { _, _ = io.Copy(to, c); _ = to.Close() }()
			go func() { _, _ = io.Copy(c, to); _ = c.Close() }()
		case done := <-w.cuts:
			cut()
			close(done)
		}
	}
}
