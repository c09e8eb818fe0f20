package client_test

import (
	"net"
	"sync"
	"testing"
)

// proxy is a way to a server on which things go wrong.
type proxy struct {
	listener net.Listener
	target   string
	tasks    sync.WaitGroup

	budget func() int64 // bytes of the answer that get through before the next connection is cut

	mu     sync.Mutex // guards below
	conns  map[net.Conn]bool
	made   int
	frozen chan struct{} // closed when bytes pass
}

func openProxy(t *testing.T, target string, budget func() int64) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{
		listener: listener, target: target, budget: budget,
		conns: make(map[net.Conn]bool), frozen: make(chan struct{}),
	}
	close(p.frozen)
	p.tasks.Go(p.serve)
	t.Cleanup(func() {
		_ = listener.Close()
		p.thaw()
		p.cut()
		p.tasks.Wait()
	})
	return p
}

// unlimited is a budget that is never used up.
func unlimited() int64 { return 1 << 40 }

func (p *proxy) url() string { return "http://" + p.listener.Addr().String() }

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil { // as if nobody listened
			reset(client)
			continue
		}
		p.mu.Lock()
		p.made++
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		budget := p.budget()
		p.tasks.Go(func() { p.pass(server, client, unlimited()) })
		p.tasks.Go(func() { p.pass(client, server, budget) })
	}
}

// pass copies until the budget is used up or an end is closed, then cuts both.
func (p *proxy) pass(to, from net.Conn, budget int64) {
	buf := make([]byte, 4<<10)
	for budget > 0 {
		n, err := from.Read(buf)
		p.mu.Lock()
		frozen := p.frozen
		p.mu.Unlock()
		<-frozen
		n = int(min(int64(n), budget))
		budget -= int64(n)
		if _, werr := to.Write(buf[:n]); werr != nil || err != nil {
			break
		}
	}
	p.mu.Lock()
	delete(p.conns, to)
	delete(p.conns, from)
	p.mu.Unlock()
	reset(to)
	reset(from)
}

// cut breaks all connections there are.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		reset(c)
	}
}

// freeze lets nothing pass until thaw.
func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = make(chan struct{})
}

func (p *proxy) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.frozen:
	default:
		close(p.frozen)
	}
}

func (p *proxy) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made
}

// reset closes a connection without its good-byes.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
