package router

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/peer"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/storetest"
)

// two are this node, n/1, and n/2, which has all that this one has not.
type two struct{}

func (two) Self() string           { return "n/1" }
func (two) Owner(string) string    { return "n/2" }
func (two) Has(member string) bool { return member == "n/1" || member == "n/2" }
func (two) Takers(string) []string { return nil }
func (two) Waits(string) bool      { return false }
func (two) Digest() string         { return "" }
func (two) Describe() wire.Cluster { return wire.Cluster{} }
func (two) Do(context.Context, string, *http.Request) (*http.Response, error) {
	return nil, peer.ErrUnreachable
}

func oneOfTwo(t *testing.T, cfg Config) *Router {
	t.Helper()
	return memberOfCluster(t, cfg)
}

// oneOf is n/1 of a cluster.
func oneOf(t *testing.T, cluster Cluster) *Router {
	t.Helper()
	return memberOfCluster(t, Config{Cluster: cluster})
}

func memberOfCluster(t *testing.T, cfg Config) *Router {
	t.Helper()
	rows := storetest.NewMemory()
	actors, err := actor.New(actor.Config{Plane: plane.Config{Store: rows, Texts: store.Texts(rows)}, Node: "n/1", Authorize: Authorize})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = actors.Close(context.Background()) })
	cfg.Actors, cfg.Store, cfg.Metrics = actors, rows, NewMetrics()
	if cfg.Cluster == nil {
		cfg.Cluster = two{}
	}
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAStreamThatLeavesWhileItIsAskedForIsToBeAskedForAgain(t *testing.T) {
	r := oneOfTwo(t, Config{})
	if _, err := r.cfg.Actors.Open(t.Context(), plane.Claim{ID: "m1"}); err != nil {
		t.Fatal(err)
	}
	gone := func(echo.Context) error { return &heldBy{"n/2", 7} }
	for _, serve := range []echo.HandlerFunc{r.owned(gone), r.ownedPump(gone)} {
		c := r.echo.NewContext(httptest.NewRequest(http.MethodPost, "/", nil), httptest.NewRecorder())
		c.Set(idKey, "m1")
		if off, ok := errors.AsType[*plane.OffsetError](serve(c)); !ok || off.Kind != plane.ErrMoved || off.Want != 7 {
			t.Errorf("a client: %v", off)
		}
		c.Set(nodeKey, "n/2")
		if h, ok := errors.AsType[*heldBy](serve(c)); !ok || h.member != "n/2" {
			t.Errorf("a node: %v", h)
		}
	}
}

// fickle is two whose other member has a stream only until it is sent something.
type fickle struct{ two }

func (fickle) Do(_ context.Context, _ string, req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if strings.HasSuffix(req.URL.Path, "/where") {
		w.WriteHeader(http.StatusNoContent)
		return w.Result(), nil
	}
	w.Header().Set(hostHeader, "n/1")
	w.WriteHeader(http.StatusMisdirectedRequest)
	return w.Result(), nil
}

func TestAPumpWhoseStreamLeavesAsItBeginsIsToBeTriedAgain(t *testing.T) {
	r := oneOf(t, fickle{})
	c := r.echo.NewContext(httptest.NewRequest(http.MethodPost, "/v1/streams/m1/pump", strings.NewReader("text")), httptest.NewRecorder())
	c.Set(idKey, "m1")
	if err := r.ownedPump(r.pump)(c); !errors.Is(err, wire.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

func TestWhatIsSentToAnotherNodeDoesNotSayWhoAsked(t *testing.T) {
	req := httptest.NewRequest(http.MethodPost, "/v1/streams/a%2Fb/append?from=3&access_token=secret", strings.NewReader("text"))
	for _, name := range []string{"Authorization", "Cookie", "X-Forwarded-For", peer.Prefix + "Host"} {
		req.Header.Set(name, "secret")
	}
	req.Header.Set("Content-Type", "text/plain")
	out, err := forwarded(t.Context(), req, req.Body, req.ContentLength)
	if err != nil {
		t.Fatal(err)
	}
	if got := out.URL.String(); got != "http://peer/v1/streams/a%2Fb/append?from=3" {
		t.Errorf("it asks for %s", got)
	}
	if len(out.Header) != 1 || out.Header.Get("Content-Type") != "text/plain" || out.ContentLength != 4 {
		t.Errorf("%v, %d bytes", out.Header, out.ContentLength)
	}
}

// A client need not encode what others would: what it asks for at one node is what
// the next one is asked for, and no other stream's route.
func TestWhatIsSentToAnotherNodeIsForTheSameStream(t *testing.T) {
	for target, want := range map[string]string{
		`/v1/streams/a"%2Fadopt`:        `/v1/streams/a%22%2Fadopt`,
		`/v1/streams/é%2Fclose/append`:  `/v1/streams/%C3%A9%2Fclose/append`,
		`/v1/streams/<%2f^%2F|/flush`:   `/v1/streams/%3C%2F%5E%2F%7C/flush`,
		`/v1/streams/%61"%252F/append`:  `/v1/streams/a%22%252F/append`,
		`/v1/streams/%2E%2E%2F"/append`: `/v1/streams/..%2F%22/append`,
		`/v1/streams/plain/append`:      `/v1/streams/plain/append`,
		`/v1/streams/a%252Fb/append`:    `/v1/streams/a%252Fb/append`,
	} {
		req, err := http.ReadRequest(bufio.NewReader(strings.NewReader("POST " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n")))
		if err != nil {
			t.Fatal(err)
		}
		out, err := forwarded(t.Context(), req, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := out.URL.RequestURI(); got != want {
			t.Errorf("%s is asked for as %s, want %s", target, got, want)
		}
	}
}

// Report 65, forged-internal-headers.
func TestWhatNodesTellEachOtherByIsTakenOffAtTheEdge(t *testing.T) {
	r := oneOfTwo(t, Config{})
	for _, name := range []string{"Caller", "Hop", "Target", "Stamp", "Signature", "Host", "Ring", "Epoch", "Refused", "Anything"} {
		for _, written := range []string{peer.Prefix + name, strings.ToUpper(peer.Prefix + name), strings.ReplaceAll(peer.Prefix+name, "-", "_")} {
			req := httptest.NewRequest(http.MethodPost, "/v1/streams/m1/append", strings.NewReader(`{"text":"x"}`))
			req.Host = "localhost"
			req.Header[written] = []string{"n/2", "n/1"}
			req.Header.Set("Connection", written)
			r.ServeHTTP(httptest.NewRecorder(), req)
			if v, left := req.Header[written]; left {
				t.Errorf("%s is still there: %v", written, v)
			}
		}
	}
}
