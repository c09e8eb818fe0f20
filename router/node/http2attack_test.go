package node_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"

	"rillkeep.dev/rillkeep/router/node"
)

// frames is a client that writes the frames of HTTP/2 by itself.
type frames struct {
	tb   testing.TB
	conn net.Conn
	out  *bufio.Writer
	next uint32
}

// openFrames begins a connection whose streams may send so many bytes.
func openFrames(tb testing.TB, n *running, window uint32) *frames {
	tb.Helper()
	conn, err := net.Dial("tcp", n.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	f := &frames{tb, conn, bufio.NewWriter(conn), 1}
	_, _ = f.out.WriteString("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	f.frame(4, 0, 0, binary.BigEndian.AppendUint32([]byte{0, 4}, window)) // SETTINGS_INITIAL_WINDOW_SIZE
	return f
}

func (f *frames) frame(kind, flags byte, stream uint32, payload []byte) {
	head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	_, _ = f.out.Write(binary.BigEndian.AppendUint32(head, stream))
	_, _ = f.out.Write(payload)
}

// field is a header field, neither compressed nor remembered.
func field(name, value string) []byte {
	return append(append(append([]byte{0, byte(len(name))}, name...), byte(len(value))), value...)
}

// request begins a stream, with its body to come or not.
func (f *frames) request(method, path string, body bool) (stream uint32) {
	flags := byte(4) // END_HEADERS
	if !body {
		flags |= 1 // END_STREAM
	}
	var block []byte
	for _, kv := range [][2]string{{":method", method}, {":scheme", "http"}, {":authority", "localhost"}, {":path", path}} {
		block = append(block, field(kv[0], kv[1])...)
	}
	stream = f.next
	f.next += 2
	f.frame(1, flags, stream, block)
	return stream
}

func (f *frames) send() {
	f.tb.Helper()
	if err := f.out.Flush(); err != nil {
		f.tb.Logf("send: %v", err)
	}
}

// A connection may have thousands of requests, and take no answer: who has no token is
// cut off before the time that an answer may take (B).
func TestWhoIsNotAllowedIsNotWaitedForLong(t *testing.T) {
	k := newKeys(t)
	n := openNode(t, node.Config{Keys: k.Keys})
	before := runtime.NumGoroutine()
	f := openFrames(t, n, 0)
	go func() { _, _ = io.Copy(io.Discard, f.conn) }()
	for range 500 {
		f.request(http.MethodGet, "/v1/streams/nothing", false)
	}
	f.send()
	await(t, "they are there", func() bool { return runtime.NumGoroutine() >= before+500 })
	await(t, "they are gone", func() bool { return runtime.NumGoroutine() < before+50 })
}

// A stream that is reset as soon as it is begun has cost what it has cost: no handler
// outlives it by more than its answer.
func TestRapidResetsLeaveNothingBehind(t *testing.T) {
	n := openNode(t, node.Config{})
	n.open("m")
	f := openFrames(t, n, 1<<16)
	go func() { _, _ = io.Copy(io.Discard, f.conn) }()
	before := runtime.NumGoroutine()
	for range 20_000 {
		id := f.request(http.MethodPost, "/v1/streams/m/pump", true)
		f.frame(3, 0, id, []byte{0, 0, 0, 8}) // RST_STREAM CANCEL
	}
	f.send()
	n.push("m", 0, "others go on") // I
	await(t, "nothing is left", func() bool { return runtime.NumGoroutine() <= before+10 })
	if got := n.snapshot("m"); got.Text != "others go on" {
		t.Errorf("%q", got.Text)
	}
}
