package peer

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAStampIsGoodOnceAndOnlyNearItsTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s seen
		used := map[stamp]bool{}
		var top uint64
		now := int64(1_000_000_000)
		id := session{1}
		for range rapid.IntRange(1, 200).Draw(t, "stamps") {
			now += rapid.Int64Range(0, 40_000).Draw(t, "passes")
			st := stamp{
				at:      now + rapid.Int64Range(-31_000, 31_000).Draw(t, "off"),
				session: id,
				number:  rapid.OneOf(rapid.Uint64Range(0, 40), rapid.Uint64Range(60_000, 70_000), rapid.Uint64Range(1<<40, 1<<40+5)).Draw(t, "number"),
			}
			got := s.use(st, now)
			off := st.at - now
			key := stamp{session: id, number: st.number}
			switch {
			case off < -stampWindow || off > stampWindow:
				if got != refusedClock {
					t.Fatalf("a stamp %d ms off: %q", off, got)
				}
			case st.number == 0 || used[key] || top >= numbersKept && st.number <= top-numbersKept:
				if got != refusedReplay {
					t.Fatalf("number %d, used %v, top %d: %q", st.number, used[key], top, got)
				}
			default:
				if got != "" {
					t.Fatalf("number %d, top %d: %q", st.number, top, got)
				}
				used[key], top = true, max(top, st.number)
			}
		}
	})
}

func TestStampsOutOfOrderAreGood(t *testing.T) {
	var s seen
	for _, i := range rand.Perm(numbersKept) {
		if why := s.use(stamp{number: uint64(i) + 1}, 0); why != "" {
			t.Fatalf("number %d: %s", i+1, why)
		}
	}
}

func TestSessionsAreBoundedAndForgotten(t *testing.T) {
	var s seen
	id := func(i int) session { return session{byte(i), byte(i >> 8), byte(i >> 16)} }
	for i := range maxSessions {
		if why := s.use(stamp{session: id(i), number: 1}, 0); why != "" {
			t.Fatalf("session %d: %s", i, why)
		}
	}
	if why := s.use(stamp{session: id(maxSessions), number: 1}, 0); why != refusedBusy {
		t.Errorf("one session more: %q", why)
	}
	if why := s.use(stamp{session: id(0), number: 2}, 0); why != "" {
		t.Errorf("a session that is known: %q", why)
	}
	later := int64(sessionIdle + 1)
	if why := s.use(stamp{at: later, session: id(maxSessions), number: 1}, later); why != "" {
		t.Errorf("after the others fell idle: %q", why)
	}
	if len(s.sessions) != 1 {
		t.Errorf("%d sessions are kept, want 1", len(s.sessions))
	}
}

func TestAStampReadsBackAsWritten(t *testing.T) {
	st := stamp{at: -5, session: newSession(), number: 1<<64 - 1}
	if got, ok := parseStamp(st.String()); !ok || got != st {
		t.Errorf("%v reads back as %v, %v", st, got, ok)
	}
}

func newTestGate(t testing.TB) *gate {
	t.Helper()
	g, err := newGate(ServerConfig{
		Identity: Identity{Name: "b", Cluster: "test", Secrets: []Secret{"a secret of a test"}},
		Handler:  http.NotFoundHandler(),
		Clock:    func() int64 { return 1000 },
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// sample is a request as a client signs it.
func sample(t testing.TB, method, target string) *http.Request {
	t.Helper()
	c, err := New(Config{Identity: Identity{Name: "a", Cluster: "test", Secrets: []Secret{"a secret of a test"}}, Clock: func() int64 { return 1000 }})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(method, target, nil)
	newLink(c, Peer{Name: "b", Addr: "b:1"}).sign(r, 1)
	return r
}

// FuzzVerify looks for a request that passes without having been signed as it is.
func FuzzVerify(f *testing.F) {
	good := sample(f, "GET", "/v1/streams/s?from=1")
	value := func(name string) string { return good.Header.Get(name) }
	f.Add("GET", "/v1/streams/s?from=1", "a", "b", "1", value(headerStamp), value(headerSignature), "", "")
	f.Add("GET", "/v1/streams/s?from=1", "a", "b", "2", value(headerStamp), value(headerSignature), headerHello, "1")
	f.Add("POST", "/", "", "\n", "-1", "1.2.3", "AAAA", "x", "y")
	f.Add("GET", "/v1/streams/s?from=1", "a", "b", "01", value(headerStamp)+" ", value(headerSignature)+"=", "rillkeep_internal_hop", "1")
	g := newTestGate(f)
	f.Fuzz(func(t *testing.T, method, uri, caller, target, hop, st, signature, name, extra string) {
		r := &http.Request{Method: method, RequestURI: uri, Header: http.Header{
			headerCaller: {caller}, headerTarget: {target}, headerHop: {hop}, headerStamp: {st}, headerSignature: {signature},
		}}
		if name != "" {
			r.Header[name] = append(r.Header[name], extra)
		}
		c, ok := g.verify(r)
		same := method == "GET" && uri == "/v1/streams/s?from=1" && caller == "a" && target == "b" && hop == "1" &&
			st == value(headerStamp) && signature == value(headerSignature) && (name == "" || !internal(name))
		if ok != same {
			t.Errorf("verified %v, signed so %v", ok, same)
		}
		if ok && (c.caller != Caller{Name: "a", Hop: 1} || c.hello) {
			t.Errorf("claim %+v", c)
		}
	})
}

func TestPartsCannotMoveBetweenFields(t *testing.T) {
	messages := map[string]string{}
	for i, r := range []struct {
		method, uri string
		h           http.Header
	}{
		{"GET", "/a", http.Header{}},
		{"GE", "T/a", http.Header{}},
		{"GET", "/", http.Header{Prefix + "A": {""}}},
		{"GET", "/", http.Header{Prefix + "A": {"", ""}}},
		{"GET", "/", http.Header{Prefix + "A": {"b"}}},
		{"GET", "/", http.Header{Prefix + "Ab": {""}}},
		{"GET", "/", http.Header{Prefix + "A": {"", "b"}}},
		{"GET", "/", http.Header{Prefix + "A": {"b", ""}}},
		{"GET", "/", http.Header{Prefix + "A": {""}, Prefix + "B": {""}}},
	} {
		withRequest(r.method, r.uri, r.h, func(m message) {
			if messages[string(m)] != "" {
				t.Errorf("case %d signs the same bytes as another", i)
			}
			messages[string(m)] = r.uri
		})
	}
}

func TestOnlyACertainNoMeansUntaken(t *testing.T) {
	cases := map[error]bool{
		errors.New(goodbye):                         true,
		errors.New("http2: client connection lost"): false,
		errors.New("unexpected EOF"):                false,
		streamError{Code: refusedStream}:            true,
		streamError{Code: 2}:                        false,
	}
	for err, want := range cases {
		if got := untaken(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
	if !strings.Contains(goodbye, "GOAWAY") {
		t.Error("goodbye is another error's text")
	}
}
