package node_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/router/node"
)

// dialed is a connection of a client that asks for one thing; its status is 0 when it
// was closed without an answer.
func (r *running) dialed(target string) (conn net.Conn, status int) {
	r.tb.Helper()
	conn, err := net.Dial("tcp", r.Addr().String())
	if err != nil {
		r.tb.Fatal(err)
	}
	r.tb.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", target)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return conn, 0
	}
	return conn, resp.StatusCode
}

func TestAConnectionThatThereIsNoRoomForIsToldSo(t *testing.T) {
	t.Parallel()
	const most, told = 8, 32
	n := openNode(t, node.Config{MaxConnections: most})
	n.open("m1") // by a connection that stays
	var readers []net.Conn
	for range most - 1 {
		conn, status := n.dialed(path("m1"))
		if status != http.StatusOK {
			t.Fatalf("a reader: %d", status)
		}
		readers = append(readers, conn)
	}
	if _, status := n.dialed(path("m1")); status != http.StatusServiceUnavailable {
		t.Errorf("one reader more: %d", status)
	}
	if _, status := n.dialed("/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("ready: %d", status)
	}
	if _, status := n.dialed("/healthz"); status != http.StatusOK {
		t.Errorf("alive: %d", status)
	}
	// Those that are told take no room for long: idle ones are closed.
	for range told {
		conn, err := net.Dial("tcp", n.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	await(t, "all are there", func() bool { return n.metrics()["rillkeep_connections"] == most+told })
	if _, status := n.dialed("/healthz"); status != 0 {
		t.Errorf("one too many: %d", status)
	}
	if n.metrics()["rillkeep_connections_refused_total"] < told {
		t.Errorf("%v were counted", n.metrics()["rillkeep_connections_refused_total"])
	}
	n.push("m1", 0, "goes on") // those that were let in are served all along
	for _, conn := range readers {
		_ = conn.Close()
	}
	await(t, "there is room", func() bool {
		_, status := n.dialed(path("m1"))
		return status == http.StatusOK
	})
}

func TestConnectionsThatComeAndGoLeaveNothing(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	n.open("m1")
	for i := range 600 {
		target := []string{path("m1"), "/healthz", "/nothing"}[i%3]
		conn, status := n.dialed(target)
		if status == 0 {
			t.Fatalf("%s was not answered", target)
		}
		_ = conn.Close()
	}
	await(t, "all have left", func() bool {
		m := n.metrics()
		return m["rillkeep_connections"] <= 1 && m["rillkeep_readers"] == 0
	})
}
