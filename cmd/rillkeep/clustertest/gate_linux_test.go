package clustertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// gates stand before the listeners that nodes have for each other, and know who
// comes: so that two nodes can be cut off from each other, and from no third.
type gates struct {
	c *cluster

	mu     sync.Mutex // guards below
	cut    map[[2]*node]bool
	healed chan struct{} // closed when cut has changed
	gossip map[int]*node // by the port that its packets come from
}

// guarded is a cluster behind gates. A node listens on 127.0.0.1 and is known to the
// others as 127.0.1.k, where its gate is, at the same ports.
func guarded(t *testing.T, size int) (*cluster, *gates) {
	t.Helper()
	c := assemble(t, size)
	g := &gates{c: c, cut: map[[2]*node]bool{}, healed: make(chan struct{}), gossip: map[int]*node{}}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	for i, n := range c.nodes {
		host := fmt.Sprintf("127.0.1.%d", i+1)
		gossip, packets := g.listen(host, true)
		peers, _ := g.listen(host, false)
		g.mu.Lock()
		g.gossip[gossip.Addr().(*net.TCPAddr).Port] = n
		g.mu.Unlock()
		for _, l := range []net.Listener{gossip, peers} {
			context.AfterFunc(ctx, func() { _ = l.Close() })
			running.Go(func() { g.serve(ctx, n, l, &running) })
		}
		context.AfterFunc(ctx, func() { _ = packets.Close() })
		running.Go(func() { g.pass(n, packets) })
		n.args = append(n.args, "--advertise", host, "--gossip-listen", inner(gossip), "--peer-listen", inner(peers))
	}
	c.start()
	return c, g
}

// inner is where the node is whose gate this is.
func inner(l net.Listener) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
}

// listen takes a port of host that is free on 127.0.0.1, too.
func (g *gates) listen(host string, packets bool) (net.Listener, *net.UDPConn) {
	g.c.Helper()
	for range 100 {
		l, err := net.Listen("tcp", host+":0")
		if err != nil {
			g.c.Fatal(err)
		}
		var p *net.UDPConn
		if packets {
			p, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(l.Addr().(*net.TCPAddr).AddrPort()))
		}
		probe, taken := net.Listen("tcp", inner(l))
		if err == nil && taken == nil {
			_ = probe.Close()
			return l, p
		}
		_ = l.Close()
		if p != nil {
			_ = p.Close()
		}
	}
	g.c.Fatal("no free port")
	return nil, nil
}

// set cuts two nodes off from each other, or joins them again.
func (g *gates) set(a, b *node, cut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cut[[2]*node{a, b}], g.cut[[2]*node{b, a}] = cut, cut
	close(g.healed)
	g.healed = make(chan struct{})
}

func (g *gates) isCut(a, b *node) (cut bool, changed <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cut[[2]*node{a, b}], g.healed
}

// pass passes packets to a node.
func (g *gates) pass(to *node, packets *net.UDPConn) {
	port := packets.LocalAddr().(*net.UDPAddr).Port
	buf := make([]byte, 64<<10)
	for {
		n, from, err := packets.ReadFromUDP(buf)
		if err != nil {
			return
		}
		g.mu.Lock()
		cut := g.cut[[2]*node{g.gossip[from.Port], to}]
		g.mu.Unlock()
		if !cut {
			_, _ = packets.WriteToUDP(buf[:n], &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}) // who does not listen gets none
		}
	}
}

// serve passes connections to a node.
func (g *gates) serve(ctx context.Context, to *node, l net.Listener, running *sync.WaitGroup) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		running.Go(func() {
			defer conn.Close()
			from := g.caller(conn)
			out, err := net.Dial("tcp", inner(l))
			if err != nil {
				return
			}
			defer out.Close()
			defer context.AfterFunc(ctx, func() { _ = conn.Close(); _ = out.Close() })()
			var both sync.WaitGroup
			both.Go(func() { g.copy(ctx, from, to, out, conn) })
			both.Go(func() { g.copy(ctx, from, to, conn, out) })
			both.Wait()
		})
	}
}

// copy copies what passes: while the two are cut off it holds it back, as a network
// does of which TCP does not know.
func (g *gates) copy(ctx context.Context, a, b *node, to, from net.Conn) {
	defer to.(*net.TCPConn).CloseWrite()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		for cut, changed := g.isCut(a, b); cut; cut, changed = g.isCut(a, b) {
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// caller is the node whose process has the other end of a connection; nil if none
// has.
func (g *gates) caller(conn net.Conn) *node {
	at := conn.RemoteAddr().(*net.TCPAddr)
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); {
		socket, err := socketOf(at)
		if err != nil {
			continue
		}
		for _, n := range g.c.nodes {
			if p := n.run(); p != nil && has(p.Cmd.Process.Pid, socket) {
				return n
			}
		}
		time.Sleep(time.Millisecond) // a node that starts is not known yet
	}
	return nil
}

// socketOf is the system's name of the socket at a local address.
func socketOf(at *net.TCPAddr) (string, error) {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return "", err
	}
	ip := at.IP.To4()
	local := fmt.Sprintf("%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], at.Port)
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 9 && f[1] == local {
			return "socket:[" + f[9] + "]", nil
		}
	}
	return "", errors.Join(io.EOF, fmt.Errorf("no socket at %s", at))
}

// has reports whether a process has a socket.
func has(pid int, socket string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	files, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, f := range files {
		if to, err := os.Readlink(dir + "/" + f.Name()); err == nil && to == socket {
			return true
		}
	}
	return false
}
