package node_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
)

// window is how much of an answer may be under way to a reader of over2, in bytes.
const window = 16 << 10

// over2 returns a client that speaks HTTP/2 from the start, and counts its
// connections.
func over2(t *testing.T) (*http.Client, *atomic.Int32) {
	var dialed atomic.Int32
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols: &protocols,
		HTTP2:     &http.HTTP2Config{MaxReceiveBufferPerStream: window},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dialed.Add(1)
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}, &dialed
}

func TestReadersShareAnHTTP2Connection(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	h2, dialed := over2(t)
	c, err := client.New(client.Config{Server: n.URL(), HTTP: h2})
	if err != nil {
		t.Fatal(err)
	}
	n.open("m")
	n.push("m", 0, "first, ")

	// One of them takes nothing: its flow control is its own (I).
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.URL()+path("m"), nil)
	if err != nil {
		t.Fatal(err)
	}
	stuck, err := h2.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Body.Close()
	if stuck.ProtoMajor != 2 || stuck.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
		t.Errorf("%s, %q", stuck.Proto, stuck.Header.Get("Content-Type"))
	}

	const readers = 300 // above the 250 streams of a server that sets no limit
	var begun, all sync.WaitGroup
	begun.Add(readers)
	texts := make([]string, readers)
	for i := range readers {
		all.Go(func() {
			first := sync.OnceFunc(begun.Done)
			defer first()
			for f, err := range c.Follow(t.Context(), "m", 0, "") {
				if err != nil {
					t.Error(err)
					return
				}
				if f.Kind == plane.KindChunk {
					texts[i] += f.Text
					first()
				}
			}
		})
	}
	begun.Wait()
	long := strings.Repeat("more than ", window/5)
	n.push("m", 7, long[:window], long[window:])
	n.seal("m")
	all.Wait()
	for _, text := range texts {
		if text != "first, "+long {
			t.Fatalf("a reader has %d units of %d", len(text), 7+len(long))
		}
	}
	if made := dialed.Load(); made != 1 {
		t.Errorf("%d connections", made)
	}
}

func TestAPumpOverHTTP2HearsWhileItSpeaks(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Policy: eager()})
	h2, dialed := over2(t)
	n.open("m")
	n.open("other")
	for _, id := range []string{"m", "other"} { // one after the other by one connection
		body, send := io.Pipe()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.URL()+path(id, "pump")+"?from=0", body)
		if err != nil {
			t.Fatal(err)
		}
		var sent sync.WaitGroup
		sent.Go(func() { _, _ = io.WriteString(send, `"one "`+"\n") })
		resp, err := h2.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(resp.Body)
		next := func() (l wire.PumpLine) {
			t.Helper()
			line, err := lines.ReadBytes('\n')
			if err == nil {
				err = json.Unmarshal(line, &l)
			}
			if err != nil {
				t.Fatalf("line %q: %v", line, err)
			}
			return l
		}
		for next().DurableSeq != 4 {
		}
		if _, err := io.WriteString(send, `"two"`+"\n"); err != nil {
			t.Fatal(err)
		}
		for next().DurableSeq != 7 {
		}
		send.Close()
		for !next().Done {
		}
		sent.Wait()
		resp.Body.Close()
	}
	if made := dialed.Load(); made != 1 {
		t.Errorf("%d connections", made)
	}
}
