package clustertest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"rillkeep.dev/rillkeep/plane"
)

// head is the head of an answer to a reader.
type head struct {
	c   *cluster
	via bool // a proxy is between, which keeps what is for it
}

// check asks for a stream, and checks the answer's header, and that its first event comes
// by itself, whether or not the stream goes on. It is the event.
func (h head) check(when string, n *node, id string, header ...string) (first string) {
	h.c.Helper()
	resp := n.stream(h.c.within(patience), id, header...)
	defer resp.Body.Close()
	buffering := "no"
	if h.via {
		buffering = ""
	}
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache, no-transform",
		"X-Accel-Buffering": buffering, "Content-Length": "", "Content-Encoding": "", "Etag": "",
	} {
		if got := resp.Header.Get(name); got != want || resp.StatusCode != http.StatusOK || resp.ContentLength != -1 {
			h.c.Errorf("%s, %s: %s, %d bytes, %s is %q, want %q", n.name, when, resp.Status, resp.ContentLength, name, got, want)
		}
	}
	for lines := bufio.NewReader(resp.Body); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			h.c.Fatalf("%s, %s: no event: %v", n.name, when, err)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			return data
		}
	}
}

// stream is the answer to a reader, whose body is read until ctx ends.
func (n *node) stream(ctx context.Context, id string, header ...string) *http.Response {
	n.c.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url()+"/v1/streams/"+url.PathEscape(id), nil)
	if err != nil {
		n.c.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "gzip, br")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := n.c.reads.Do(req)
	if err != nil {
		n.c.Fatal(err)
	}
	return resp
}

// Report 55, buffering-header-lost.
func TestReadersOfEveryNodeGetTheSameHeadersAndTheirTextAtOnce(t *testing.T) {
	t.Parallel()
	c := open(t, 3)
	p, owner, others := begun(c, "m1")
	silent := owned(c, owner, 1)[0]
	fronts, deaf := nginx(c, owner, others[0])
	each := func(check func(h head, n *node)) {
		for _, n := range c.nodes {
			check(head{c: c}, n)
		}
		for _, n := range fronts {
			check(head{c: c, via: true}, n)
		}
	}
	each(func(h head, n *node) {
		for _, got := range []string{
			h.check("before its first token", n, silent), h.check("live", n, "m1"), h.check("resumed", n, "m1", "Last-Event-ID", "7"),
		} {
			if !strings.HasPrefix(got, `{"type":"open",`) {
				t.Errorf("%s: the first event is %s", n.name, got)
			}
		}
	})
	held, leave := context.WithTimeout(t.Context(), 2*time.Second)
	defer leave()
	if some, err := deaf.until(held, "m1"); len(some) > 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("this nginx holds nothing back: %q, %v", some, err)
	}

	var reading errgroup.Group
	var readers []*reader
	for _, n := range fronts {
		r := &reader{c: c, text: p.text, only: n}
		readers = append(readers, r)
		reading.Go(func() error { return r.run(c.within(patience)) })
	}
	for k := 5; k < 15; k++ {
		if err := p.append(t.Context(), p.text.ends[k]); err != nil {
			t.Fatal(err)
		}
		c.await("its text through nginx", func() bool { return readers[0].at.Load() == p.pos && readers[1].at.Load() == p.pos })
	}
	if err := p.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := reading.Wait(); err != nil {
		t.Error(err)
	}
	for _, r := range readers {
		if r.end.status != plane.StatusComplete || r.returned > 0 {
			t.Errorf("%s: a reader has its end as %+v, having come back %d times", r.only.name, r.end, r.returned)
		}
	}
	each(func(h head, n *node) {
		h.check("finished", n, "m1")
		h.check("finished and resumed", n, "m1", "Last-Event-ID", "7")
	})
}

// until is what comes of a stream through the node until ctx ends.
func (n *node) until(ctx context.Context, id string) (some []byte, err error) {
	n.c.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url()+"/v1/streams/"+id, nil)
	if err != nil {
		n.c.Fatal(err)
	}
	resp, err := n.c.reads.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}
