package peer_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/router/peer"
)

func TestARequestArrivesWithItsCallerAndItsHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		c, b := n.pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			from, ok := peer.From(r.Context())
			body, _ := io.ReadAll(r.Body)
			w.Header().Set(peer.Prefix+"Hint", "c")
			fmt.Fprintf(w, "%v %v %s %s %s %q %d", from, ok, r.Method, r.RequestURI,
				r.Header.Get(peer.Prefix+"Grant"), body, len(r.Header))
		}))
		req, _ := http.NewRequest(http.MethodPost, "http://x/v1/streams/a%2Fb?from=1", strings.NewReader("text"))
		req.Header.Set(peer.Prefix+"Grant", "read")
		resp, err := c.Do(t.Context(), b, req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got, _ := io.ReadAll(resp.Body)
		// Left of the headers are the grant, Content-Length, User-Agent.
		want := `{a 1} true POST /v1/streams/a%2Fb?from=1 read "text" 3`
		if string(got) != want {
			t.Errorf("handler saw %s\nwant %s", got, want)
		}
		if hint := resp.Header.Get(peer.Prefix + "Hint"); hint != "c" {
			t.Errorf("hint %q, want c", hint)
		}
		for name := range resp.Header {
			if strings.HasPrefix(name, peer.Prefix) && name != peer.Prefix+"Hint" {
				t.Errorf("answer still has header %s", name)
			}
		}
		if resp.Request != req {
			t.Error("answer is to another request")
		}
	})
}

func TestWhatNoMemberSaysIs401AndReachesNoHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var reached, reasons atomic.Int64
		n.serve(t, peer.ServerConfig{
			Identity: identity("b"),
			Handler:  http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }),
			Refused:  func(string) { reasons.Add(1) },
		}, "b:1")
		raw := n.raw(t)
		forged := http.Header{
			peer.Prefix + "Caller": {"a"}, peer.Prefix + "Target": {"b"}, peer.Prefix + "Hop": {"1"},
			peer.Prefix + "Stamp":     {fmt.Sprintf("%d.%032x.1", time.Now().UnixMilli(), 7)},
			peer.Prefix + "Signature": {strings.Repeat("A", 43)},
		}
		hellos := forged.Clone()
		hellos.Set(peer.Prefix+"Hello", "1")
		twice := forged.Clone()
		twice.Add(peer.Prefix+"Caller", "c")
		cases := map[string]http.Header{"nothing": {}, "forged": forged, "hello": hellos, "two callers": twice}
		for name, h := range cases {
			for _, method := range []string{"GET", "OPTIONS", "POST"} {
				req, _ := http.NewRequest(method, "http://b:1/v1/streams/s", nil)
				if method == "OPTIONS" {
					req.URL.Path = "*"
				}
				req.Header = h.Clone()
				resp, err := raw.RoundTrip(req)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				body, _ := io.ReadAll(resp.Body)
				if resp.StatusCode != http.StatusUnauthorized || len(body) > 0 {
					t.Errorf("%s: status %d, body %q, want a bare 401", name, resp.StatusCode, body)
				}
				for h := range resp.Header {
					if strings.HasPrefix(h, peer.Prefix) {
						t.Errorf("%s: answer says %s", name, h)
					}
				}
			}
		}
		if reached.Load() != 0 || reasons.Load() != 12 {
			t.Errorf("%d reached the handler, %d counted as refused, want 0 and 12", reached.Load(), reasons.Load())
		}
	})
}

func TestMembersOfOtherSecretsAreDenied(t *testing.T) {
	const older, newer, other = peer.Secret("the older secret"), peer.Secret("the newer secret"), peer.Secret("another one's secret")
	cases := []struct {
		name           string
		client, server []peer.Secret
		cluster        string
		want           error
	}{
		{"same", []peer.Secret{older}, []peer.Secret{older}, "test", nil},
		{"another secret", []peer.Secret{other}, []peer.Secret{older}, "test", peer.ErrDenied},
		{"another cluster", []peer.Secret{older}, []peer.Secret{older}, "prod", peer.ErrDenied},
		{"server knows the next already", []peer.Secret{older}, []peer.Secret{older, newer}, "test", nil},
		{"client knows the next already", []peer.Secret{older, newer}, []peer.Secret{older}, "test", nil},
		{"server signs with the next", []peer.Secret{older, newer}, []peer.Secret{newer, older}, "test", nil},
		{"client signs with the next", []peer.Secret{newer, older}, []peer.Secret{older, newer}, "test", nil},
		{"server has dropped the last", []peer.Secret{newer, older}, []peer.Secret{newer}, "test", nil},
		{"client has dropped the last", []peer.Secret{newer}, []peer.Secret{newer, older}, "test", nil},
		{"a step left out", []peer.Secret{newer}, []peer.Secret{older}, "test", peer.ErrDenied},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork()
				n.serve(t, peer.ServerConfig{
					Identity: peer.Identity{Name: "b", Cluster: "test", Secrets: tc.server},
					Handler:  http.HandlerFunc(hello),
				}, "b:1")
				c := n.client(t, peer.Config{Identity: peer.Identity{Name: "a", Cluster: tc.cluster, Secrets: tc.client}})
				_, _, err := ask(t.Context(), c, peer.Peer{Name: "b", Addr: "b:1"}, get("/"))
				wantErr(t, err, tc.want)
				if err != nil && (strings.Contains(err.Error(), string(older)) || strings.Contains(err.Error(), string(other))) {
					t.Errorf("error tells a secret: %v", err)
				}
			})
		})
	}
}

func TestASignatureForOneMemberIsNoGoodAtAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		c, _ := n.pair(t, http.HandlerFunc(hello))
		_, _, err := ask(t.Context(), c, peer.Peer{Name: "b-1", Addr: "b:1"}, get("/"))
		wantErr(t, err, peer.ErrNotPeer)
		if !c.Unreachable("b-1") {
			t.Error("a name that another answers to counts as reachable")
		}
		asks(t, c, peer.Peer{Name: "b", Addr: "b:1"}, get("/"))
	})
}

func TestAStrangerAtTheAddressIsNoPeer(t *testing.T) {
	for _, status := range []int{200, 204, 302, 404, 421, 500} {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork()
			var bodies atomic.Int64
			n.plain(t, "b:1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if b, _ := io.ReadAll(r.Body); len(b) > 0 {
					bodies.Add(1)
				}
				w.Header().Set(peer.Prefix+"Node", "b")
				w.Header().Set(peer.Prefix+"Signature", strings.Repeat("A", 43))
				w.WriteHeader(status)
			}))
			c := n.client(t, peer.Config{Identity: identity("a")})
			req, _ := http.NewRequest(http.MethodPost, "http://x/", strings.NewReader("confidential"))
			req.Header.Set("Authorization", "Bearer of a user")
			_, _, err := ask(t.Context(), c, peer.Peer{Name: "b", Addr: "b:1"}, req)
			wantErr(t, err, peer.ErrNotPeer)
			if bodies.Load() != 0 {
				t.Error("a stranger was sent a request's body")
			}
		})
	}
}

// skewed is a pair of which b's clock can be set.
func (n *network) skewed(t testing.TB, h http.Handler) (c *peer.Client, b peer.Peer, ahead, refused *atomic.Int64) {
	ahead, refused = new(atomic.Int64), new(atomic.Int64)
	n.serve(t, peer.ServerConfig{
		Identity: identity("b"), Handler: h, Refused: func(string) { refused.Add(1) },
		Clock: func() int64 { return time.Now().UnixMilli() + ahead.Load() },
	}, "b:1")
	return n.client(t, peer.Config{Identity: identity("a")}), peer.Peer{Name: "b", Addr: "b:1"}, ahead, refused
}

func TestClocksMayBeMinutesApart(t *testing.T) {
	for _, off := range []time.Duration{-10 * time.Minute, 10 * time.Minute, -1000 * time.Hour, 0} {
		t.Run(off.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork()
				c, b, ahead, refused := n.skewed(t, http.HandlerFunc(echo))
				ahead.Store(off.Milliseconds())
				asks(t, c, b, get("/"))
				if refused.Load() != 0 {
					t.Errorf("%d refused at the start, want none: the greeting tells the time", refused.Load())
				}
				for _, jump := range []time.Duration{10 * time.Minute, -10 * time.Minute, -time.Hour} {
					ahead.Add(jump.Milliseconds()) // under a connection in use
					req, _ := http.NewRequest(http.MethodPost, "http://x/", strings.NewReader("text"))
					if got := asks(t, c, b, req); got != "text" {
						t.Errorf("after a jump of %v: %q, want the body", jump, got)
					}
				}
				if refused.Load() != 3 {
					t.Errorf("%d refused, want 3", refused.Load())
				}
			})
		})
	}
}

func TestABodyThatCanBeHadOnceIsNeverDeliveredInPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		c, b, ahead, _ := n.skewed(t, http.HandlerFunc(echo))
		asks(t, c, b, get("/"))
		for range 50 {
			ahead.Add((-10 * time.Minute).Milliseconds())
			for attempt := range 2 {
				req, _ := http.NewRequest(http.MethodPost, "http://x/", io.NopCloser(strings.NewReader("text")))
				_, body, err := ask(t.Context(), c, b, req)
				if err == nil {
					if body != "text" {
						t.Fatalf("delivered was %q", body)
					}
					break // the refusal came before the body was touched
				}
				if wantErr(t, err, peer.ErrUnreachable); attempt == 1 {
					t.Fatal("refused again, though the time is known by now")
				}
			}
		}
	})
}

func echo(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }

func TestSecretsDoNotPrint(t *testing.T) {
	id := identity("a")
	for _, f := range []string{"%v", "%+v", "%#v", "%s"} {
		if s := fmt.Sprintf(f, id); strings.Contains(s, "long enough") {
			t.Errorf("%s prints %s", f, s)
		}
	}
}

func TestAnIdentityMustBeWhole(t *testing.T) {
	cases := map[string]peer.Identity{
		"no name":         {Secrets: []peer.Secret{secret}},
		"a name of lines": {Name: "a\nb", Secrets: []peer.Secret{secret}},
		"neither":         {Name: "a"},
		"short":           {Name: "a", Secrets: []peer.Secret{secret, "short"}},
		"no such file":    {Name: "a", TLS: &peer.TLS{Cert: "none", Key: "none", CA: "none"}},
	}
	for name, id := range cases {
		if _, err := peer.New(peer.Config{Identity: id}); err == nil {
			t.Errorf("%s: made a client", name)
		}
		if _, err := peer.NewServer(peer.ServerConfig{Identity: id, Handler: http.NotFoundHandler()}); err == nil {
			t.Errorf("%s: made a server", name)
		}
	}
	if _, err := peer.NewServer(peer.ServerConfig{Identity: identity("a")}); err == nil {
		t.Error("made a server without a handler")
	}
}
