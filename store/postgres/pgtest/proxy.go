package pgtest

import (
	"context"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Fault is what becomes of a request and its connection.
type Fault int

const (
	// CutBefore ends the connection; the request does not reach the server.
	CutBefore Fault = iota
	// CutAfter ends the connection once the server has answered in full, of
	// which nothing reaches the client.
	CutAfter
	// Stall holds back the answer, and whatever follows on the connection, until
	// Thaw.
	Stall
)

// When says which requests a fault is for. It is asked once for each request
// that executes something, with all its SQL, one at a time.
type When func(sql string) bool

// Words are the requests whose SQL has all of these in it, whatever their case.
func Words(words ...string) When {
	return func(sql string) bool {
		sql = strings.ToLower(sql)
		for _, word := range words {
			if !strings.Contains(sql, strings.ToLower(word)) {
				return false
			}
		}
		return true
	}
}

// Writes are the requests that change rows, or make changes last.
func Writes(sql string) bool {
	for _, verb := range []string{"insert", "update ", "delete", "commit"} {
		if Words(verb)(sql) {
			return true
		}
	}
	return false
}

// Nth is the nth from now on, from 1, of the requests that when is for.
func Nth(n int, when When) When {
	return func(sql string) bool {
		if when(sql) {
			n--
			return n == 0
		}
		return false
	}
}

// Every is every nth from now on of the requests that when is for.
func Every(n int, when When) When {
	count := 0
	return func(sql string) bool {
		if when(sql) {
			count++
			return count%n == 0
		}
		return false
	}
}

// Proxy is a way to a server that breaks as it is told. It speaks TCP without
// TLS on loopback and understands as much of the protocol as tells one request
// from the next. Its methods are safe for concurrent use.
type Proxy struct {
	listener         net.Listener
	network, address string // the server's
	url              string
	running          sync.WaitGroup

	mu       sync.Mutex // guards below
	links    map[*link]struct{}
	closed   bool
	refusing bool
	frozen   bool
	thaw     chan struct{} // closed by Thaw
	delay    time.Duration
	rules    map[*rule]struct{}
}

type rule struct {
	when  When
	fault Fault
}

// NewProxy answers a proxy in front of the server of a URL. It ends with the
// test.
func NewProxy(tb testing.TB, server string) *Proxy {
	tb.Helper()
	cfg, err := pgconn.ParseConfig(server)
	if err != nil {
		tb.Fatal(err)
	}
	u, err := url.Parse(server)
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{links: make(map[*link]struct{}), rules: make(map[*rule]struct{}), thaw: make(chan struct{})}
	p.network, p.address = pgconn.NetworkAddress(cfg.Host, cfg.Port)
	p.listener, err = net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	u.Host = p.listener.Addr().String()
	query := u.Query()
	query.Del("host")
	query.Del("port")
	query.Set("sslmode", "disable")
	u.RawQuery = query.Encode()
	p.url = u.String()
	p.running.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// URL is the server's URL by way of the proxy.
func (p *Proxy) URL() string { return p.url }

// On breaks the requests that when is for, until off is called. Of several that
// are for a request the most recent may not be the one that counts.
func (p *Proxy) On(when When, fault Fault) (off func()) {
	r := &rule{when, fault}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules[r] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.rules, r)
	}
}

// Cut ends all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Lose lets nothing pass any more on the connections there are, of which nobody
// is told, until Thaw.
func (p *Proxy) Lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.stalled = true
	}
}

// Refuse makes the proxy end new connections at once, or no longer.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = refuse
}

// Delay holds back every request by d.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Freeze lets nothing pass in either direction, though connections are still
// made, until Thaw.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = true
}

// Thaw lets pass what was frozen or stalled.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = false
	for l := range p.links {
		l.stalled = false
	}
	close(p.thaw)
	p.thaw = make(chan struct{})
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for l := range p.links {
		l.cut()
	}
	p.mu.Unlock()
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		l := &link{proxy: p, client: client, statements: make(map[string]string)}
		l.done, l.cut = context.WithCancel(context.Background())
		p.mu.Lock()
		if p.closed || p.refusing {
			l.cut()
		} else {
			p.links[l] = struct{}{}
		}
		p.mu.Unlock()
		p.running.Go(func() {
			l.run()
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.links, l)
		})
	}
}

// fault is what becomes of a request, if anything.
func (p *Proxy) fault(sql string) (found bool, fault Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := range p.rules { // all are asked: some count
		if r.when(sql) {
			found, fault = true, r.fault
		}
	}
	return found, fault
}
