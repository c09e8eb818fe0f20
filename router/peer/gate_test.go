package peer

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

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
func sample(t testing.TB, method, target string, hop int) *http.Request {
	t.Helper()
	c, err := New(Config{Identity: Identity{Name: "a", Cluster: "test", Secrets: []Secret{"a secret of a test"}}, Clock: func() int64 { return 1000 }})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(method, target, nil)
	l := newLink(c, Peer{Name: "b", Addr: "b:1"})
	l.stamps.session = session{byte(hop)} // the same in every process that fuzzes
	l.sign(r, hop)
	return r
}

// FuzzVerify looks for a request that passes without having been signed as it is.
func FuzzVerify(f *testing.F) {
	good := sample(f, "GET", "/v1/streams/s?from=1", 1)
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

func TestAHighHopCountIs508(t *testing.T) {
	g := newTestGate(t)
	for hop, want := range map[int]int{1: http.StatusNotFound, MaxHops: http.StatusNotFound, MaxHops + 1: http.StatusLoopDetected} {
		r := sample(t, "GET", "/", hop)
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("hop %d: %d, want %d", hop, w.Code, want)
		}
	}
	g.close()
	defer func() {
		if recover() != http.ErrAbortHandler {
			t.Error("a closed gate served a request")
		}
	}()
	g.ServeHTTP(httptest.NewRecorder(), sample(t, "GET", "/", 1))
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
}
