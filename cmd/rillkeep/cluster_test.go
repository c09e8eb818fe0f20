package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"rillkeep.dev/rillkeep/router/wire"
)

// cluster serves one description of a cluster.
func cluster(t *testing.T, status int, body string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/cluster" {
			t.Errorf("asked for %s", r.URL)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestClusterShowsMembersAndWhatTheyHave(t *testing.T) {
	described := wire.Cluster{Self: "dev-1/a", Ring: "5eed", Members: []wire.Member{
		{Name: "dev-1/a", Node: "dev-1", State: "active", Version: "v1.2.0", URL: "http://127.0.0.1:1001", Share: 0.503, NodeCounts: &wire.NodeCounts{Streams: 12, Lingering: 3}},
		{Name: "dev-2/b", Node: "dev-2", State: "draining", Share: 0},
	}}
	body, err := json.Marshal(described)
	if err != nil {
		t.Fatal(err)
	}
	s := cluster(t, http.StatusOK, string(body))
	at(t, s.URL, nil, "cluster").want(t, 0, ""+
		"MEMBER   STATE     SHARE   LIVE  ENDED  URL                    VERSION\n"+
		"dev-1/a  active    50.3 %  12    3      http://127.0.0.1:1001  v1.2.0\n"+
		"dev-2/b  draining  0.0 %   -     -      -                      -\n"+
		"\nas dev-1/a sees it, ring 5eed\n", "")
	at(t, s.URL, nil, "cluster", "--json").want(t, 0, string(body)+"\n", "")
}

func TestANodeThatIsAloneSaysSo(t *testing.T) {
	s := cluster(t, http.StatusNotImplemented, `{"error":{"code":"unsupported","message":"this node is alone"}}`)
	at(t, s.URL, nil, "cluster").want(t, exitFailure, "", "rillkeep: this node is alone\n")
}
