package peer_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/router/peer"
)

// plain serves a handler with nothing before it.
func (n *network) plain(t testing.TB, addr string, h http.Handler) {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: h, Protocols: &p}
	l := n.listen(addr)
	var running sync.WaitGroup
	running.Go(func() { s.Serve(l) })
	t.Cleanup(func() { s.Close(); running.Wait() })
}

// raw sends requests as they are.
func (n *network) raw(t testing.TB) *http.Transport {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: &p, DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
		return n.Dial(ctx, addr)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// middle stands between a client and a server, and hears and changes what it likes.
type middle struct {
	request func(*http.Request)  // what becomes of a request
	answer  func(*http.Response) // what becomes of its answer
	heard   []*http.Request      // as they were
	mu      sync.Mutex
}

// between puts a middle before b:1, at m:1.
func (n *network) between(t testing.TB) *middle { return n.before(t, "b:1") }

func (n *network) before(t testing.TB, addr string) *middle {
	m := &middle{}
	raw := n.raw(t)
	n.plain(t, "m:1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := r.Clone(r.Context())
		out.URL.Scheme, out.URL.Host, out.RequestURI = "http", addr, ""
		m.mu.Lock()
		kept := out.Clone(context.Background())
		kept.Body = http.NoBody
		m.heard = append(m.heard, kept)
		m.mu.Unlock()
		if m.request != nil && r.Header.Get(peer.Prefix+"Hello") == "" {
			m.request(out)
		}
		resp, err := raw.RoundTrip(out)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer resp.Body.Close()
		if m.answer != nil && r.Header.Get(peer.Prefix+"Hello") == "" {
			m.answer(resp)
		}
		for name, v := range resp.Header {
			w.Header()[name] = v
		}
		w.WriteHeader(resp.StatusCode)
		io.Copy(w, resp.Body)
	}))
	return m
}

func TestAnAlteredRequestIsRefused(t *testing.T) {
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(peer.Prefix+name, value) }
	}
	cases := map[string]struct {
		alter func(*http.Request)
		fits  bool
	}{
		"as it is":                        {func(*http.Request) {}, true},
		"method":                          {func(r *http.Request) { r.Method = "DELETE" }, false},
		"path":                            {func(r *http.Request) { r.URL.Path = "/v1/streams/other" }, false},
		"query":                           {func(r *http.Request) { r.URL.RawQuery = "from=2" }, false},
		"escape":                          {func(r *http.Request) { r.URL.RawPath = "/v1/%73treams/s" }, false},
		"caller":                          {set("Caller", "c"), false},
		"target":                          {set("Target", "c"), false},
		"hop":                             {set("Hop", "2"), false},
		"grant":                           {set("Grant", "write"), false},
		"grant once more":                 {func(r *http.Request) { r.Header.Add(peer.Prefix+"Grant", "write") }, false},
		"grant away":                      {func(r *http.Request) { r.Header.Del(peer.Prefix + "Grant") }, false},
		"one more":                        {set("More", ""), false},
		"hello":                           {set("Hello", "1"), false},
		"signature away":                  {func(r *http.Request) { r.Header.Del(peer.Prefix + "Signature") }, false},
		"signature cut":                   {set("Signature", "abc"), false},
		"stamp":                           {func(r *http.Request) { r.Header[peer.Prefix+"Stamp"][0] += "0" }, false},
		"header of no concern to members": {func(r *http.Request) { r.Header.Set("User-Agent", "x") }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork()
				c, _ := n.pair(t, http.HandlerFunc(hello))
				n.between(t).request = tc.alter
				req := get("/v1/streams/s?from=1")
				req.Header.Set(peer.Prefix+"Grant", "read")
				_, _, err := ask(t.Context(), c, peer.Peer{Name: "b", Addr: "m:1"}, req)
				if tc.fits {
					wantErr(t, err, nil)
				} else {
					wantErr(t, err, peer.ErrDenied)
				}
			})
		})
	}
}

func TestAnAlteredAnswerIsNotBelieved(t *testing.T) {
	var earlier http.Header
	cases := map[string]func(*http.Response){
		"status":         func(r *http.Response) { r.StatusCode = 204 },
		"hint":           func(r *http.Response) { r.Header.Set(peer.Prefix+"Hint", "d") },
		"one more":       func(r *http.Response) { r.Header.Set(peer.Prefix+"More", "d") },
		"refusal":        func(r *http.Response) { r.Header.Set(peer.Prefix+"Refused", "clock") },
		"signature away": func(r *http.Response) { r.Header.Del(peer.Prefix + "Signature") },
		"one to another request": func(r *http.Response) {
			if earlier == nil {
				earlier = r.Header.Clone()
				return
			}
			r.Header = earlier
		},
	}
	for name, alter := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork()
				c, _ := n.pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set(peer.Prefix+"Hint", "c")
				}))
				n.between(t).answer = alter
				m := peer.Peer{Name: "b", Addr: "m:1"}
				if strings.Contains(name, "another") {
					asks(t, c, m, get("/"))
				}
				_, _, err := ask(t.Context(), c, m, get("/"))
				wantErr(t, err, peer.ErrNotPeer)
			})
		})
	}
}

func TestAReplayedRequestIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		served := 0
		reasons := map[string]int{}
		n.serve(t, peer.ServerConfig{
			Identity: identity("b"), Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }),
			Refused: func(why string) { reasons[why]++ },
		}, "b:1")
		c := n.client(t, peer.Config{Identity: identity("a")})
		m := n.between(t)
		asks(t, c, peer.Peer{Name: "b", Addr: "m:1"}, get("/first"))
		asks(t, c, peer.Peer{Name: "b", Addr: "m:1"}, get("/second"))
		raw := n.raw(t)
		replay := func() {
			t.Helper()
			for _, r := range m.heard[1:] { // the first is the greeting
				resp, err := raw.RoundTrip(r.Clone(t.Context()))
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.StatusCode != http.StatusUnauthorized {
					t.Errorf("replay got %d, want 401", resp.StatusCode)
				}
			}
		}
		replay()
		time.Sleep(29 * time.Second)
		replay()
		if reasons["replay"] != 4 {
			t.Errorf("refused %v, want 4 replays", reasons)
		}
		time.Sleep(2 * time.Second)
		replay()
		time.Sleep(time.Hour)
		replay()
		if served != 2 || reasons["replay"] != 4 || reasons["clock"] != 4 {
			t.Errorf("served %d, want 2; refused %v, want 4 by clock after the window", served, reasons)
		}
	})
}

func TestARequestMadeForOneMemberIsRefusedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		c, _ := n.pair(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("reached the handler") }))
		n.serve(t, peer.ServerConfig{Identity: identity("c"), Handler: http.HandlerFunc(hello)}, "c:1")
		m := n.before(t, "c:1")
		asks(t, c, peer.Peer{Name: "c", Addr: "m:1"}, get("/"))
		for _, r := range m.heard {
			r.URL.Host = "b:1"
			resp, err := n.raw(t).RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("got %d, want 401", resp.StatusCode)
			}
		}
	})
}
