package clustertest

import (
	"context"
	"io"
	"iter"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"rillkeep.dev/rillkeep/plane"
)

// answer is a whole response.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask makes a request of a node; header is names and values in turn.
func (n *node) ask(method, target, body string, header ...string) answer {
	n.c.Helper()
	req, err := http.NewRequestWithContext(n.c.Context(), method, n.url()+target, strings.NewReader(body))
	if err != nil {
		n.c.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := n.c.calls.Do(req)
	if err != nil {
		n.c.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		n.c.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(all)}
}

// begun is a stream of three nodes with some text, its owner, and the others.
func begun(c *cluster, id string) (p *producer, owner *node, others []*node) {
	c.Helper()
	p = &producer{c: c, text: newText(id, 50), pause: time.Millisecond}
	if err := p.open(c.Context()); err != nil {
		c.Fatal(err)
	}
	if err := p.append(c.Context(), p.text.ends[4]); err != nil {
		c.Fatal(err)
	}
	owner = c.hosts()[id]
	for _, n := range c.nodes {
		if n != owner {
			others = append(others, n)
		}
	}
	return p, owner, others
}

// Report 30, stop-on-wrong-node.
func TestAStopAtAnyNodeStopsTheUpstreamAtTheOwner(t *testing.T) {
	t.Parallel()
	c := open(t, 3)
	p, owner, others := begun(c, "m1")
	var reading errgroup.Group
	var readers []*reader
	for _, n := range c.nodes {
		r := &reader{c: c, text: p.text, only: n}
		readers = append(readers, r)
		reading.Go(func() error { return r.run(c.within(patience)) })
	}
	_, cl := owner.place()
	p.text.sent.Store(p.text.ends[5])
	stopped := make(chan struct{})
	pumping := make(chan error, 1)
	go func() {
		_, err := cl.Pump(t.Context(), "m1", p.pos, func(ctx context.Context) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				yield(p.text.slice(p.pos, p.text.ends[5]), nil)
				<-ctx.Done() // as a model that thinks
				close(stopped)
			}
		}, nil)
		pumping <- err
	}()
	c.await("the pump's text", func() bool { return owner.snapshot("m1").Seq == p.text.ends[5] })
	asked := time.Now()
	if a := others[1].ask(http.MethodPost, "/v1/streams/m1/cancel", ""); a.status/100 != 2 {
		t.Fatalf("stop: %d %s", a.status, a.body)
	}
	select {
	case <-stopped:
	case <-time.After(10 * time.Second):
		t.Fatal("the upstream goes on")
	}
	t.Logf("the upstream was closed %v after the stop", time.Since(asked).Round(time.Millisecond))
	if err := <-pumping; err != nil {
		t.Error(err)
	}
	if err := reading.Wait(); err != nil {
		t.Error(err)
	}
	for _, r := range readers {
		if r.end.status != plane.StatusCancelled || r.end.seq != p.text.ends[5] {
			t.Errorf("%s: a reader has its end as %+v", r.only.name, r.end)
		}
	}
	for _, n := range c.nodes {
		if a := n.ask(http.MethodPost, "/v1/streams/m1/cancel", ""); a.status/100 != 2 && a.status != http.StatusConflict {
			t.Errorf("%s: a stop of what has ended: %d %s", n.name, a.status, a.body)
		}
		if a := n.ask(http.MethodPost, "/v1/streams/none/cancel", ""); a.status != http.StatusNotFound {
			t.Errorf("%s: a stop of what is not there: %d %s", n.name, a.status, a.body)
		}
	}
}

// Report 69, same-name-new-ip.
func TestANodeKilledAndStartedAtAnotherAddressIsServedThere(t *testing.T) {
	t.Parallel()
	c := open(t, 3)
	n := c.nodes[1]
	old := n.url()
	n.kill()
	n.start()
	if n.url() == old {
		t.Fatal("it is where it was")
	}
	began := time.Now()
	c.settle()
	t.Logf("one ring %v after the start", time.Since(began).Round(time.Millisecond))
	ids := owned(c, n, 3)
	for i, id := range ids {
		at := c.nodes[i%2*2] // a node that was there all along
		if a := at.ask(http.MethodPost, "/v1/streams/"+id+"/append", `{"text":"x"}`); a.status != http.StatusOK {
			t.Errorf("%s through %s: %d %s", id, at.name, a.status, a.body)
		}
	}
	c.nodes[0].kill() // and the other way around: the one that knew it first is gone
	c.nodes[0].start()
	c.settle()
}

// Report 88, sigterm-drain; the rolling restart holds the rest of it.
func TestANodeThatDrainsIsNotReadyAndASecondSignalEndsIt(t *testing.T) {
	t.Parallel()
	c := open(t, 2)
	p, owner, others := begun(c, "m1")
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r := &reader{c: c, text: p.text, only: owner}
	go func() { _ = r.run(ctx) }() // holds the drain up, since the stream goes on elsewhere
	c.await("its reader", func() bool { return r.opened.Load() })
	owner.run().Signal(t, syscall.SIGTERM)
	c.await("word of the drain", func() bool {
		resp, err := c.calls.Get(owner.url() + "/readyz")
		if err != nil {
			t.Fatal("it was gone before it said that it is not ready")
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusServiceUnavailable
	})
	c.await("the stream elsewhere", func() bool { return others[0].is(others[0].snapshot("m1").Host) })
	if owner.run().IsOver() {
		t.Fatal("it did not wait for its reader")
	}
	owner.run().Signal(t, syscall.SIGTERM)
	if code := owner.run().Ended(t); code == 0 {
		t.Error("a second signal ends it as if all were well")
	}
	if err := p.append(t.Context(), p.text.ends[6]); err != nil {
		t.Error(err)
	}
	if err := p.close(t.Context()); err != nil {
		t.Error(err)
	}
}
