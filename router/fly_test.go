package router

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// named is two, whose other member has another name.
type named struct {
	two
	other string
}

func (n named) Owner(string) string    { return n.other }
func (n named) Has(member string) bool { return member == n.other }

func TestARingOfNobodyIsToBeAskedAgain(t *testing.T) {
	r := oneOfTwo(t, Config{Cluster: named{}})
	for _, route := range []string{"", "/append", "/pump", "/flush", "/close"} {
		w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/streams/m1"+route, nil)
		req.Host = "localhost"
		r.ServeHTTP(w, req)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("%q: %d %s %v", route, w.Code, w.Body, w.Header())
		}
	}
}

func TestTheEdgeIsToldToReplayWhatItCan(t *testing.T) {
	for name, tt := range map[string]struct {
		route, header, owner, body string
		status                     int
		replay                     string
	}{
		"an append":                {"append", "", "n/2", "text", http.StatusConflict, "instance=n"},
		"one to a machine":         {"append", "", "3d8d9014b32d68/k2", "text", http.StatusConflict, "instance=3d8d9014b32d68"},
		"one that was replayed":    {"append", "Fly-Replay-Src", "n/2", "text", http.StatusServiceUnavailable, ""},
		"one that could not be":    {"append", "Fly-Replay-Failed", "n/2", "text", http.StatusServiceUnavailable, ""},
		"a body that it holds":     {"append", "", "n/2", strings.Repeat("x", maxReplay), http.StatusConflict, "instance=n"},
		"one that it does not":     {"append", "", "n/2", strings.Repeat("x", maxReplay+1), http.StatusServiceUnavailable, ""},
		"a pump":                   {"pump", "", "n/2", "text", http.StatusServiceUnavailable, ""},
		"a name with an address":   {"append", "", "host-127.0.0.1:8080/2", "text", http.StatusServiceUnavailable, ""},
		"a name that says more":    {"append", "", "n;app=others/2", "text", http.StatusServiceUnavailable, ""},
		"a name of several values": {"append", "", "n,region=ams/2", "text", http.StatusServiceUnavailable, ""},
		"a name of other letters":  {"append", "", "nœud/2", "text", http.StatusServiceUnavailable, ""},
	} {
		r := oneOfTwo(t, Config{FlyReplay: true, Cluster: named{other: tt.owner}, Limits: Limits{AppendBytes: 2 << 20}})
		w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/streams/m1/"+tt.route, strings.NewReader(tt.body))
		req.Host = "localhost"
		req.Header.Set("Content-Type", "text/plain")
		if tt.header != "" {
			req.Header.Set(tt.header, "instance=other")
		}
		r.ServeHTTP(w, req)
		if got := w.Header().Get("Fly-Replay"); w.Code != tt.status || got != tt.replay {
			t.Errorf("%s: %d %q", name, w.Code, got)
		}
	}
}
