package node_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/node"
)

func TestAPumpThroughAnotherNodeEndsWithItsAnswerThoughItsBodyIsOpen(t *testing.T) {
	t.Parallel()
	cfg := node.Config{Data: t.TempDir(), Policy: eager()}
	nodes := []*running{joinCluster(t, "n1", cfg), joinCluster(t, "n2", cfg)}
	awaitMembers(t, nodes)
	nodes[0].open("m1")
	_, others := host(t, nodes, "m1")
	n := others[0]
	p := n.pump("m1", "", "application/x-ndjson")
	p.piece("{\"text\":\"text\"}\n")
	if line := p.ack(); line.Seq != 4 {
		t.Fatalf("%+v", line)
	}
	n.seal("m1")
	if line := p.last(); line.Status != plane.StatusComplete || line.Seq != 4 {
		t.Errorf("%+v", line)
	}
	p.want("0\r\n\r\n")
	p.wantEnd()

	refused := n.pump("m1", "", "application/x-ndjson")
	refused.piece("{\"text\":\"more\"}\n")
	if head := refused.head(); head[0] != "HTTP/1.1 409 Conflict" {
		t.Errorf("%q", head)
	}
}

func TestAPumpIsCutOffWithTheConnectionToItsOwner(t *testing.T) {
	t.Parallel()
	cfg := node.Config{Data: t.TempDir(), Policy: eager()}
	one := joinCluster(t, "n1", cfg)
	var mu sync.Mutex
	var conns []net.Conn
	cfg.Name = "n2"
	cfg.Cluster = &node.Cluster{
		Secrets: []string{clusterSecret}, GossipListen: "127.0.0.1:0", PeerListen: "127.0.0.1:0",
		Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				conns = append(conns, conn)
			}
			return conn, err
		},
	}
	other := openNode(t, cfg)
	awaitMembers(t, []*running{one, other})
	id := ""
	for i := 0; id == ""; i++ {
		name := fmt.Sprint("m", i)
		one.open(name)
		if host, _, _ := strings.Cut(one.snapshot(name).Host, "/"); host == "n1" {
			id = name
		}
	}
	p := other.pump(id, "", "application/x-ndjson")
	p.piece("{\"text\":\"text\"}\n")
	if line := p.ack(); line.Seq != 4 {
		t.Fatalf("%+v", line)
	}
	mu.Lock()
	for _, conn := range conns {
		_ = conn.Close()
	}
	mu.Unlock()
	if rest := p.cutOff(); rest != "" { // not even the end of a body
		t.Errorf("it ended with %q", rest)
	}
}
