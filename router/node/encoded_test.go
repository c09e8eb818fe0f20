package node_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/node"
)

// A: the stream that a client may write, whose id ends as a route does, is at each node
// that stream, and never another's route.
func TestAnIDThatItsClientDidNotEncodeReachesNoOtherStream(t *testing.T) {
	t.Parallel()
	cfg := node.Config{Data: t.TempDir()}
	nodes := []*running{joinCluster(t, "n1", cfg), joinCluster(t, "n2", cfg)}
	awaitMembers(t, nodes)
	for i := range 4 { // some are the one's, some the other's
		victim := fmt.Sprintf(`v%d"`, i)
		nodes[0].open(victim)
		for _, route := range []string{"close", "adopt"} {
			id := victim + "/" + route
			for at, want := range []int{http.StatusCreated, http.StatusConflict} {
				if got := nodes[at].post(strings.ReplaceAll(id, "/", "%2F")); got != want {
					t.Errorf("open of %s at n%d: %d, want %d", id, at+1, got, want)
				}
			}
			if got := nodes[0].snapshot(id).Status; got != plane.StatusStreaming {
				t.Errorf("%s is %s", id, got)
			}
		}
		if got := nodes[0].snapshot(victim).Status; got != plane.StatusStreaming {
			t.Errorf("%s is %s", victim, got)
		}
	}
}

// post opens a stream, whose id goes into the request as it is written.
func (r *running) post(id string) (status int) {
	r.tb.Helper()
	host := strings.TrimPrefix(r.URL(), "http://")
	conn, err := new(net.Dialer).DialContext(r.tb.Context(), "tcp", host)
	if err != nil {
		r.tb.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "POST /v1/streams/%s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", id, host); err != nil {
		r.tb.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		r.tb.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}
