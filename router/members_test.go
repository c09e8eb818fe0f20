package router

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"rillkeep.dev/rillkeep/router/wire"
)

// heard is two, whose other member answers as it is told, and notes what it was asked.
type heard struct {
	two
	answer func(route string) (status int, body io.Reader)

	mu    sync.Mutex // guards below
	rings map[string]string
}

func (*heard) Takers(string) []string { return nil }
func (*heard) Waits(string) bool      { return false }
func (*heard) Digest() string         { return "5ca1ab1e" }

func (*heard) Describe() wire.Cluster {
	return wire.Cluster{Self: "n/1", Members: []wire.Member{{Name: "n/1"}, {Name: "n/2"}}}
}

func (h *heard) Do(_ context.Context, _ string, req *http.Request) (*http.Response, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rings[req.Method+" "+req.URL.Path] = req.Header.Get(ringHeader)
	status, body := h.answer(req.URL.Path)
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(body)}, nil
}

func TestEveryRequestToANodeSaysByWhichRingItIs(t *testing.T) {
	h := &heard{rings: map[string]string{}, answer: func(route string) (int, io.Reader) {
		if strings.HasSuffix(route, "/where") {
			return http.StatusNoContent, http.NoBody
		}
		return http.StatusOK, strings.NewReader("{}")
	}}
	r := oneOfTwo(t, Config{Cluster: h})
	for _, route := range []string{"", "/append", "/pump", "/flush", "/close", "/fail"} {
		req := httptest.NewRequest(http.MethodPost, "/v1/streams/m1"+route, nil)
		req.Host = "localhost"
		r.ServeHTTP(httptest.NewRecorder(), req)
	}
	for _, target := range []string{"/v1/streams/m1", "/v1/cluster"} {
		req := httptest.NewRequest(http.MethodGet, target, nil)
		req.Host = "localhost"
		req.Header.Set("Accept", typeJSON)
		r.ServeHTTP(httptest.NewRecorder(), req)
	}
	if src, _, err := r.Attach(t.Context(), "m2", 0, 0); err == nil && src != nil {
		_ = src.Close()
	}
	_ = r.AskToAdopt(t.Context(), "n/2", "m1")
	for _, asked := range []string{
		"POST /v1/streams/m1", "POST /v1/streams/m1/append", "GET /v1/streams/m1/where", "POST /v1/streams/m1/pump",
		"POST /v1/streams/m1/flush", "POST /v1/streams/m1/close", "POST /v1/streams/m1/fail",
		"GET /v1/node", "GET /v1/streams/m2", "POST /v1/streams/m1/adopt",
	} {
		if ring, ok := h.rings[asked]; !ok || ring != h.Digest() {
			t.Errorf("%s: asked %v, of ring %q", asked, ok, ring)
		}
		delete(h.rings, asked)
	}
	for asked, ring := range h.rings {
		if ring != h.Digest() {
			t.Errorf("%s: of ring %q", asked, ring)
		}
	}
}

// spaces are as many as one reads.
type spaces struct{ read int }

func (s *spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	s.read += len(p)
	return len(p), nil
}

func TestWhatAMemberSaysOfItselfIsBounded(t *testing.T) {
	endless := new(spaces)
	for name, tt := range map[string]struct {
		status int
		body   io.Reader
		want   *wire.NodeCounts
	}{
		"what it holds": {http.StatusOK, strings.NewReader(`{"streams":2,"lingering":1}`), &wire.NodeCounts{Streams: 2, Lingering: 1}},
		"without end":   {http.StatusOK, endless, nil},
		"nothing":       {http.StatusOK, http.NoBody, nil},
		"not now":       {http.StatusServiceUnavailable, strings.NewReader(`{"streams":2}`), nil},
	} {
		r := oneOfTwo(t, Config{Cluster: &heard{
			rings: map[string]string{}, answer: func(string) (int, io.Reader) { return tt.status, tt.body },
		}})
		w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v1/cluster", nil)
		req.Host = "localhost"
		r.ServeHTTP(w, req)
		var said wire.Cluster
		if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || len(said.Members) != 2 {
			t.Fatalf("%s: %d %s", name, w.Code, w.Body)
		}
		own, other := said.Members[0].NodeCounts, said.Members[1].NodeCounts
		if own == nil || *own != (wire.NodeCounts{}) {
			t.Errorf("%s: of itself it says %+v", name, own)
		}
		if (other == nil) != (tt.want == nil) || other != nil && *other != *tt.want {
			t.Errorf("%s: %+v", name, other)
		}
	}
	if endless.read > 2*maxCounts {
		t.Errorf("read %d bytes of an answer without end", endless.read)
	}
}
