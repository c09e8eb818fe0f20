package peer

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkSignAndVerify is all that authentication costs one request: signed
// by the client, verified and its stamp used by the server, the answer signed by
// the server and verified by the client.
func BenchmarkSignAndVerify(b *testing.B) {
	cfg := Config{Identity: Identity{Name: "node-1/1764515084123", Cluster: "test", Secrets: []Secret{"a secret of a test"}}}
	c, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	g, err := newGate(ServerConfig{
		Identity: Identity{Name: "node-2/1764515084456", Cluster: "test", Secrets: cfg.Secrets}, Handler: http.NotFoundHandler(),
	})
	if err != nil {
		b.Fatal(err)
	}
	l := newLink(c, Peer{Name: g.name})
	r := httptest.NewRequest(http.MethodGet, "/v1/streams/0198c1f0-7d2a-7c3e-9f00-0123456789ab?plane=live&from=12345", nil)
	w := httptest.NewRecorder()
	resp := &http.Response{StatusCode: http.StatusOK, Header: w.Header()}
	b.ReportAllocs()
	for b.Loop() {
		code := l.sign(r, 1)
		claim, ok := g.verify(r)
		if !ok || g.judge(claim) != "" {
			b.Fatal("refused")
		}
		a := answer{ResponseWriter: w, key: claim.key, request: claim.code, node: g.name}
		a.WriteHeader(http.StatusOK)
		if err := l.authentic(resp, code); err != nil {
			b.Fatal(err)
		}
	}
}
