package peer_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/router/peer"
)

func TestARequestPassesTwoMembersAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var hops []int
		passOn := func(c **peer.Client, to peer.Peer) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				from, _ := peer.From(r.Context())
				hops = append(hops, from.Hop)
				_, _, err := ask(r.Context(), *c, to, get("/"))
				if errors.Is(err, peer.ErrLoop) {
					w.WriteHeader(http.StatusLoopDetected)
				} else if err != nil {
					w.WriteHeader(http.StatusBadGateway)
				}
			})
		}
		a, b := peer.Peer{Name: "a", Addr: "a:1"}, peer.Peer{Name: "b", Addr: "b:1"}
		var fromA, fromB *peer.Client
		n.serve(t, peer.ServerConfig{Identity: identity("a"), Handler: passOn(&fromA, b)}, a.Addr)
		n.serve(t, peer.ServerConfig{Identity: identity("b"), Handler: passOn(&fromB, a)}, b.Addr)
		fromA = n.client(t, peer.Config{Identity: identity("a")})
		fromB = n.client(t, peer.Config{Identity: identity("b")})
		status, _, err := ask(t.Context(), fromA, b, get("/")) // b asks a, a would ask b
		if err != nil {
			t.Fatal(err)
		}
		if len(hops) != 2 || hops[0] != 1 || hops[1] != 2 || status != http.StatusOK {
			t.Errorf("hops %v, status %d; want 1 and 2", hops, status)
		}
	})
}

func TestPanicsAreNoStackTracesOnTheWireNorForLeavers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var mu sync.Mutex
		var logged bytes.Buffer
		n.serve(t, peer.ServerConfig{
			Identity: identity("b"),
			Logger:   slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) { mu.Lock(); defer mu.Unlock(); return logged.Write(p) }), nil)),
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "body") {
					io.WriteString(w, "data: 1\n\n")
					w.(http.Flusher).Flush()
				}
				switch {
				case strings.HasSuffix(r.URL.Path, "abort"):
					panic(http.ErrAbortHandler)
				case strings.HasSuffix(r.URL.Path, "bug"):
					panic("text of a response")
				}
				for { // until the reader leaves
					if _, err := w.Write(make([]byte, 1<<10)); err != nil {
						panic(http.ErrAbortHandler)
					}
				}
			}),
		}, "b:1")
		c, b := n.client(t, peer.Config{Identity: identity("a")}), peer.Peer{Name: "b", Addr: "b:1"}

		_, _, err := ask(t.Context(), c, b, get("/abort"))
		wantErr(t, err, peer.ErrBroken)
		status, body, err := ask(t.Context(), c, b, get("/bug"))
		if status != http.StatusInternalServerError || body != "" || err != nil {
			t.Errorf("a bug before the answer: %d %q %v, want a bare 500", status, body, err)
		}
		for _, path := range []string{"/body/abort", "/body/bug"} {
			_, body, err := ask(t.Context(), c, b, get(path))
			wantErr(t, err, peer.ErrBroken)
			if body != "data: 1\n\n" {
				t.Errorf("%s: stream has %q", path, body)
			}
		}
		for range 100 {
			resp, err := c.Do(t.Context(), b, get("/body/left"))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if got := strings.Count(logged.String(), "\n"); got != 2 {
			t.Errorf("%d log lines, want one for each bug:\n%s", got, logged.String())
		}
		if strings.Contains(logged.String(), "text of a response") {
			t.Error("log tells what the panic said")
		}
		if got := n.dialled("b:1"); got != 1 {
			t.Errorf("%d connections, want 1", got)
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestAHandlersRequestHasNoHeadersOfTheTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		c, b := n.pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for name := range r.Header {
				w.Header().Add("Saw", name)
			}
			w.Header().Set(peer.Prefix+"Node", "forged by a handler")
			w.Header().Set(peer.Prefix+"Refused", "clock")
		}))
		req := get("/")
		req.Header = http.Header{
			"Connection": {"X-Drop, close", peer.Prefix + "Caller"}, "X-Drop": {"1"}, "X-Keep": {"1"},
			"Keep-Alive": {"5"}, "Upgrade": {"h2c"}, "Transfer-Encoding": {"chunked"}, "Te": {"gzip"},
			peer.Prefix + "Caller": {"forged"}, "rillkeep-internal-hop": {"9"}, "rillkeep-internal-grant": {"g"},
		}
		resp, err := c.Do(t.Context(), b, req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		saw := map[string]bool{}
		for _, name := range resp.Header["Saw"] {
			saw[name] = true
		}
		if len(saw) != 3 || !saw["X-Keep"] || !saw[peer.Prefix+"Grant"] || !saw["User-Agent"] {
			t.Errorf("handler saw %v", saw)
		}
		if len(req.Header) != 10 {
			t.Errorf("caller's request was altered: %v", req.Header)
		}
	})
}

func TestStrangersAreShownOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		c, b := n.pair(t, http.HandlerFunc(hello))
		ends := func(what string, say func(net.Conn)) {
			t.Helper()
			conn, err := n.Dial(t.Context(), b.Addr)
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			var saying sync.WaitGroup
			saying.Go(func() { say(conn) })
			io.Copy(io.Discard, conn)
			conn.Close()
			saying.Wait()
			if d := time.Since(start); d > 6*time.Second {
				t.Errorf("%s: connection was open for %v, want 5s", what, d)
			}
		}
		ends("silent", func(net.Conn) {})
		ends("slow", func(c net.Conn) {
			for _, b := range []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})
		ends("HTTP/1.1", func(c net.Conn) { io.WriteString(c, "GET / HTTP/1.1\r\nHost: b\r\n\r\n") })
		ends("HTTP/2 without a request", func(c net.Conn) {
			io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
		})
		ends("HTTP/2 without a request, alive", func(c net.Conn) {
			io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
			for { // a ping's answer now and then is a sign of life
				if _, err := io.WriteString(c, "\x00\x00\x08\x06\x01\x00\x00\x00\x00........"); err != nil {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
		asks(t, c, b, get("/"))
	})
}

func TestACrowdOfStrangersKeepsNoMemberOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.serve(t, peer.ServerConfig{Identity: identity("b"), Handler: http.HandlerFunc(hello), MaxConns: 100}, "b:1")
		b := peer.Peer{Name: "b", Addr: "b:1"}
		before := n.client(t, peer.Config{Identity: identity("a")})
		asks(t, before, b, get("/"))
		crowd := make([]net.Conn, 300)
		for i := range crowd {
			conn, err := n.Dial(t.Context(), b.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			crowd[i] = conn
		}
		open := 0
		for _, conn := range crowd {
			_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
			if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
				open++
			}
		}
		if open > 64 {
			t.Errorf("%d strangers are inside, want 64 at most", open)
		}
		asks(t, n.client(t, peer.Config{Identity: identity("c")}), b, get("/"))
		asks(t, before, b, get("/"))
		if got := n.dialled(b.Addr); got != 302 {
			t.Errorf("%d dials, want 302: a member's connection was closed", got)
		}
	})
}

func TestConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.serve(t, peer.ServerConfig{Identity: identity("b"), Handler: http.HandlerFunc(hello), MaxConns: 3}, "b:1")
		b := peer.Peer{Name: "b", Addr: "b:1"}
		for i := range 5 {
			c := n.client(t, peer.Config{Identity: identity("a")})
			_, _, err := ask(t.Context(), c, b, get("/"))
			if i < 3 {
				wantErr(t, err, nil)
			} else {
				wantErr(t, err, peer.ErrUnreachable)
			}
		}
	})
}

func TestTooLargeAHeaderIsRefusedAndHarmsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		c, b := n.pair(t, http.HandlerFunc(hello))
		req := get("/")
		req.Header.Set("X-Large", strings.Repeat("x", 100<<10))
		if _, _, err := ask(t.Context(), c, b, req); err == nil {
			t.Error("it got through")
		}
		asks(t, c, b, get("/"))
		if got := n.dialled(b.Addr); got != 1 {
			t.Errorf("%d dials, want 1", got)
		}
	})
}

func TestABodyIsNotReadBeforeItsRequestIsFoundGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.pair(t, http.HandlerFunc(hello))
		reader, writer := io.Pipe()
		defer writer.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://b:1/", reader)
		resp, err := n.raw(t).RoundTrip(req) // the body never ends
		if err != nil || resp.StatusCode != http.StatusUnauthorized {
			t.Fatalf("%v, %v, want a 401 at once", resp, err)
		}
		resp.Body.Close()
	})
}

func TestStripLeavesNoInternalHeader(t *testing.T) {
	names := []string{
		"Rillkeep-Internal-Hop", "rillkeep-internal-hop", "RILLKEEP-INTERNAL-HOP", "rIllkeep-Internal-signature",
		"Rillkeep_Internal_Hop", "Rillkeep-Internal_Hop", " Rillkeep-Internal-Hop", "Rillkeep-Internal-Hop ",
		"\tRillkeep-Internal-Hop", "Rillkeep-Internal-", "\r\nRillkeep-Internal-Caller", "Rillkeep-Internal-Anything-Else",
	}
	h := http.Header{"Rillkeep-Internals": {"kept"}, "X-Rillkeep-Internal-Hop": {"kept"}, "Rillkeep-Internal": {"kept"}, "Accept": {"kept"}}
	for _, name := range names {
		h[name] = []string{"1", "2"}
	}
	peer.Strip(h)
	if len(h) != 4 {
		t.Errorf("left are %v, want the four others", h)
	}
	peer.Strip(nil)
}

func FuzzStripLeavesNothingThatCouldPassForInternal(f *testing.F) {
	for _, s := range []string{"Rillkeep-Internal-Hop", "rillkeep_internal_x", " RILLKEEP-internal-", "Accept", "", "Rillkeep"} {
		f.Add(s)
	}
	prefix := strings.ToLower(peer.Prefix)
	f.Fuzz(func(t *testing.T, name string) {
		h := http.Header{name: {"x"}}
		h.Add(name, "y")
		peer.Strip(h)
		for left := range h {
			if flat := strings.ReplaceAll(strings.ToLower(strings.TrimSpace(left)), "_", "-"); strings.HasPrefix(flat, prefix) {
				t.Errorf("%q was left", left)
			}
		}
	})
}
