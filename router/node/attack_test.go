package node_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/auth"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
)

func TestADeltaWithAnOffsetEndsWithItsCharacters(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	n.open("m1")
	for _, cut := range []string{"\xe2", "\xe2\x82", "ab\xf0\x9f\x98", "😀\xc3"} {
		for range 2 { // a repeat is no more welcome
			a := n.do(http.MethodPost, path("m1", "append")+"?from=0", cut, "Content-Type", "text/plain")
			wantError(t, fmt.Sprintf("%q", cut), a, http.StatusBadRequest, "cut_character")
		}
		if got := n.snapshot("m1"); got.Seq != 0 || got.Text != "" {
			t.Fatalf("%q was taken: %d %q", cut, got.Seq, got.Text)
		}
	}
	pos := int64(0)
	for _, whole := range []string{"€", "😀", "\xff", "\xe2\x82x"} { // what is no character at all is taken as ever
		for range 2 {
			a := n.do(http.MethodPost, path("m1", "append")+fmt.Sprintf("?from=%d", pos), whole, "Content-Type", "text/plain")
			if ack := decode[wire.Ack](t, a); a.status != http.StatusOK || ack.Seq != pos+plane.Units(whole) {
				t.Fatalf("%q at %d: %d %s", whole, pos, a.status, a.body)
			}
		}
		pos += plane.Units(whole)
	}
	n.seal("m1")
	if got := n.snapshot("m1").Text; got != "€😀\uFFFD\uFFFDx" {
		t.Errorf("the text is %q", got)
	}
}

func TestJSONIsUTF8(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{}, func(t *testing.T, n *running) {
		n.open("m1")
		for name, c := range map[string][2]string{
			"meta":               {path("m2"), "{\"meta\":{\"a\":\"\xff\"}}"},
			"meta, cut":          {path("m2"), "{\"meta\":\"\xe2\x82\"}"},
			"meta, a surrogate":  {path("m2"), "{\"meta\":\"\xed\xa0\x80\"}"},
			"the name of a meta": {path("m2"), "{\"meta\":{\"\xff\":1}}"},
			"producer":           {path("m2"), "{\"producer\":\"\xff\"}"},
			"error":              {path("m1", "fail"), "{\"error\":\"\xc0\x80\"}"},
			"close":              {path("m1", "close"), "{\"status\":\"complete\",\"why\":\"\xff\"}"},
			"append":             {path("m1", "append"), "{\"text\":\"a\xff\"}"},
			"append, cut":        {path("m1", "append"), "{\"text\":\"\xe2\x82\"}"},
			"append, beside":     {path("m1", "append"), "{\"text\":\"a\",\"more\":\"\xff\"}"},
		} {
			wantError(t, name, n.do(http.MethodPost, c[0], c[1]), http.StatusBadRequest, "bad_request")
		}
		wantError(t, "m2", n.do(http.MethodGet, path("m2"), ""), http.StatusNotFound, "not_found")
		if snap := n.snapshot("m1"); snap.Status != plane.StatusStreaming || snap.Text != "" {
			t.Errorf("m1: %+v", snap)
		}
		a := n.do(http.MethodPost, path("m2"), `{"meta":{"a":"\ud800\u0000é"}}`) // escapes are UTF-8, whatever they mean
		if a.status != http.StatusCreated {
			t.Errorf("escapes: %d %s", a.status, a.body)
		}
		if a := n.do(http.MethodGet, "/v1/streams", ""); !strings.Contains(a.body, `{"a":"\ud800\u0000é"}`) {
			t.Errorf("the meta is %s", a.body)
		}
	})
}

// dialSmall is dial for a client whose unread answers stay with the server.
func (r *running) dialSmall() *socket {
	r.tb.Helper()
	conn, err := smallWindow(r.tb.Context(), "tcp", r.Addr().String())
	if err != nil {
		r.tb.Fatal(err)
	}
	r.tb.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		r.tb.Fatal(err)
	}
	return &socket{tb: r.tb, conn: conn.(*net.TCPConn), in: bufio.NewReader(conn)}
}

// taken is what a client got until its connection ended.
type taken struct {
	bytes int
	err   error
}

// trickle reads a little now and then, or all there is when hurry is closed,
// until the connection ends.
func (s *socket) trickle(hurry <-chan struct{}) <-chan taken {
	ended := make(chan taken, 1)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		var got taken
		for buf := make([]byte, 4<<10); got.err == nil; {
			select {
			case <-tick.C:
			case <-hurry:
			}
			var n int
			n, got.err = s.conn.Read(buf)
			got.bytes += n
		}
		ended <- got
	}()
	return ended
}

func TestAReaderThatStaysBehindIsAskedForItsTokenAndEndsWithTheNode(t *testing.T) {
	t.Parallel()
	for _, proto := range []string{"HTTP/1.1", "HTTP/1.0"} {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			k := newKeys(t)
			n := openNode(t, node.Config{Keys: k.Keys, Limits: router.Limits{Recheck: time.Second}})
			writer := k.token(t, auth.Claims{Ops: []auth.Op{auth.Write}, Streams: []string{"m1"}})
			n.client = n.as(writer)
			n.open("m1")
			const units = 8_000_000
			a := n.do(http.MethodPost, path("m1", "pump"), strings.Repeat("0123456789abcdef", units/16),
				"Content-Type", "text/plain", "Authorization", "Bearer "+writer)
			if a.status != http.StatusOK || !strings.Contains(a.body, `"done":true`) {
				t.Fatalf("pump: %d %.200s", a.status, a.body)
			}
			hurry := make(chan struct{})
			read := func(expires time.Time) <-chan taken {
				token := k.sign(t, jwt.MapClaims{"ops": []string{"read"}, "streams": []string{"m1"}, "exp": expires.Unix()})
				s := n.dialSmall()
				s.get(proto, "/v1/streams/m1", "Authorization: Bearer "+token)
				return s.trickle(hurry)
			}
			admin := []string{"Authorization", "Bearer " + k.token(t, auth.Claims{Ops: []auth.Op{auth.Admin}})}
			// Clocks may be 10 s apart: this token is good for six or seven seconds more.
			expired, valid := read(time.Now().Add(-3*time.Second)), read(time.Now().Add(time.Hour))
			await(t, "the expired token is noticed", func() bool {
				return n.metrics(admin...)[`rillkeep_readers_closed_total{reason="denied"}`] == 1
			})
			select {
			case got := <-valid:
				t.Errorf("the other's reader was ended: %+v", got)
			default:
			}
			began := time.Now()
			if err := n.drain(); err != nil {
				t.Errorf("drain: %v", err)
			}
			if took := time.Since(began); took > patience/2 {
				t.Errorf("the drain took %v", took)
			}
			close(hurry)
			for name, ended := range map[string]<-chan taken{"expired": expired, "valid": valid} {
				got := <-ended
				var timeout net.Error
				if errors.As(got.err, &timeout) && timeout.Timeout() || got.bytes >= units {
					t.Errorf("%s: after %d bytes: %v", name, got.bytes, got.err)
				}
			}
		})
	}
}

func TestASnapshotIsTakenInTimeOrCut(t *testing.T) {
	t.Parallel()
	const atOnce, units = 4, 5 << 20 // more than a connection holds
	n := openNode(t, node.Config{Limits: router.Limits{Snapshots: atOnce, AnswerTime: 15 * time.Second}})
	n.open("m1")
	n.pumpText("m1", strings.Repeat("a", units))
	answered := func() float64 {
		return n.metrics()[`rillkeep_http_requests_total{route="/v1/streams/:id",status="200"}`]
	}
	var clients []*socket
	for range atOnce {
		s := n.dialSmall()
		s.get("HTTP/1.1", "/v1/streams/m1", "Accept: application/json")
		clients = append(clients, s)
	}
	for _, s := range clients {
		if head := s.head(); head[0] != "HTTP/1.1 200 OK" {
			t.Fatal(head)
		}
	}
	a := n.do(http.MethodGet, path("m1"), "", "Accept", "application/json")
	if a.status == http.StatusOK {
		t.Fatal("one more is answered")
	}
	wantError(t, "one more", a, http.StatusServiceUnavailable, "unavailable")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	await(t, "those that take nothing are cut", func() bool { return answered() == atOnce })
	for _, s := range clients {
		if rest := s.cutOff(); len(rest) > units {
			t.Errorf("all of it came: %d bytes", len(rest))
		}
	}
	if got := n.snapshot("m1"); got.Seq != units {
		t.Errorf("there is no room again: %d", got.Seq)
	}
}

func TestADrainDoesNotWaitForHalfABody(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	n.open("m1")
	n.push("m1", 0, "text")
	for _, head := range []string{
		"POST /v1/streams/m1/append HTTP/1.1\r\nContent-Length: 100\r\n",
		"POST /v1/streams/m1/append HTTP/1.1\r\nTransfer-Encoding: chunked\r\n",
		"POST /v1/streams/m1/close HTTP/1.1\r\nContent-Length: 100\r\n",
		"POST /v1/streams/m1/pump HTTP/1.1\r\nContent-Length: 100\r\n",
	} {
		s := n.dial()
		s.send("%sHost: 127.0.0.1\r\nExpect: 100-continue\r\n\r\n", head)
		s.want("HTTP/1.1 100 Continue\r\n\r\n") // it waits for the body
		s.send("5\r\n{")
	}
	n.dial().send("POST /v1/str")
	began := time.Now()
	if err := n.drain(); err != nil {
		t.Errorf("drain: %v", err)
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("it took %v", took)
	}
	wantEnding(t, n.restart(), "m1", plane.StatusInterrupted, "text")
}

func TestAReaderThatSendsSomethingIsCut(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	n.open("m1")
	for _, p := range []string{"auto", "live", "durable"} {
		s := n.dial()
		s.get("HTTP/1.1", "/v1/streams/m1?plane="+p)
		s.head()
		for s.line() != "\n" { // the retry
		}
		s.send("G")
		if rest := s.cutOff(); strings.Contains(rest, `"type":"end"`) {
			t.Errorf("%s: %q", p, rest)
		}
	}
	if gone := n.metrics()[`rillkeep_readers_closed_total{reason="gone"}`]; gone != 3 {
		t.Errorf("%v are gone, want 3", gone)
	}
	// What came with the request is not a second one.
	s := n.dial()
	s.send("GET /v1/streams/m1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" +
		"POST /v1/streams/m1/append HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 12\r\n\r\n{\"text\":\"x\"}")
	s.head()
	n.push("m1", 0, "a")
	n.seal("m1")
	_, _ = io.Copy(io.Discard, s.in)
	if got := n.snapshot("m1").Text; got != "a" {
		t.Errorf("the text is %q", got)
	}
}
