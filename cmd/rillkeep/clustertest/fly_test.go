package clustertest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/wire"
)

// edge is a proxy that does what Fly.io's does: it leads requests to one machine or
// another, and again to the one that the answer's fly-replay header names.
type edge struct {
	c        *cluster
	next     atomic.Int64
	replayed atomic.Int64
}

func (e *edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	resp, err := e.send(r, body, e.c.through(int(e.next.Add(1))), "")
	if err == nil && resp.Header.Get("Fly-Replay") != "" {
		name, ok := strings.CutPrefix(resp.Header.Get("Fly-Replay"), "instance=")
		_ = resp.Body.Close()
		err = fmt.Errorf("no machine %q", name)
		for _, n := range e.c.nodes {
			if ok && n.name == name {
				e.replayed.Add(1)
				resp, err = e.send(r, body, n, "instance=edge;state=")
			}
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

func (e *edge) send(r *http.Request, body []byte, n *node, source string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, n.url()+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = r.Header.Clone()
	if source != "" {
		req.Header.Set("Fly-Replay-Src", source)
	}
	return e.c.calls.Do(req)
}

func TestWithFlyReplayTheEdgeLeadsEachRequestToItsOwner(t *testing.T) {
	t.Parallel()
	c := open(t, 3, "--forwarding", "fly-replay")
	e := &edge{c: c}
	front := httptest.NewServer(e)
	defer front.Close()
	cl, err := client.New(client.Config{Server: front.URL})
	if err != nil {
		t.Fatal(err)
	}
	const many = 30
	for i := range many {
		id, want := fmt.Sprintf("chat/%d ü", i), ""
		if _, err := cl.Open(t.Context(), id, wire.Open{}); err != nil {
			t.Fatal(err)
		}
		pos := int64(0)
		for k := range 5 {
			delta := fmt.Sprintf("%d-%d 😀 ", i, k)
			ack, err := cl.Append(t.Context(), id, pos, delta)
			if err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			pos, want = ack.Seq, want+delta
		}
		if sealed, err := cl.Close(t.Context(), id, wire.Close{}); err != nil || sealed.Status != "complete" || sealed.Seq != pos {
			t.Errorf("%s: %+v, %v", id, sealed, err)
		}
		if snap := c.through(i).snapshot(id); snap.Text != want {
			t.Errorf("%s has %q", id, snap.Text)
		}
	}
	var forwarded float64
	for _, n := range c.nodes {
		forwarded += n.metric("rillkeep_forwarded_total") // snapshots of live streams, of which there is none
	}
	if e.replayed.Load() < many || forwarded != 0 {
		t.Errorf("%d requests were replayed, %v forwarded", e.replayed.Load(), forwarded)
	}
}

// An edge that replays to the wrong machine, or can't, is not asked again: the node
// sends the request on itself.
func TestAReplayedRequestIsNotToBeReplayedAgain(t *testing.T) {
	t.Parallel()
	c := open(t, 2, "--forwarding", "fly-replay")
	id := ""
	for i := 0; id == ""; i++ { // until it is one of the first node's own
		if at := fmt.Sprintf("s%d", i); c.nodes[0].ask(http.MethodPost, "/v1/streams/"+at, "").status == http.StatusCreated {
			id = at
		}
	}
	for _, header := range []string{"Fly-Replay-Src", "Fly-Replay-Failed"} {
		a := c.nodes[1].ask(http.MethodPost, "/v1/streams/"+id+"/append", `{"text":"x"}`, header, "instance=elsewhere")
		if a.status != http.StatusOK || a.header.Get("Fly-Replay") != "" {
			t.Errorf("%s: %d, replay to %q", header, a.status, a.header.Get("Fly-Replay"))
		}
	}
}
