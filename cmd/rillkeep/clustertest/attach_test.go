package clustertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/wire"
)

func TestAThousandReadersAreOneAttachAndNoneWhenTheyHaveLeft(t *testing.T) {
	const crowd = 1000
	c := open(t, 2)
	p := &producer{c: c, text: newText("m1", 20), pause: 100 * time.Millisecond}
	if err := p.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	owner := c.hosts()["m1"]
	far := c.nodes[0]
	if far == owner {
		far = c.nodes[1]
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	readers := make([]*reader, crowd)
	var reading sync.WaitGroup
	for i := range readers {
		r := &reader{c: c, text: p.text, only: far}
		readers[i] = r
		reading.Go(func() {
			if err := r.run(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	if err := p.speak(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	c.await("all at the tip", func() bool {
		return !slices.ContainsFunc(readers, func(r *reader) bool { return r.at.Load() != p.pos })
	})
	for name, want := range map[*node]map[string]float64{
		owner: {"rillkeep_readers": 1, "rillkeep_relay_streams_attached": 0},
		far:   {"rillkeep_readers": crowd, "rillkeep_relay_readers": crowd, "rillkeep_relay_streams_attached": 1, "rillkeep_relay_attaches_total": 1},
	} {
		for metric, v := range want {
			if got := name.metric(metric); got != v {
				t.Errorf("%s: %s is %v, want %v", name.name, metric, got, v)
			}
		}
	}
	leave()
	reading.Wait()
	c.await("no attach", func() bool {
		return owner.metric("rillkeep_readers") == 0 && far.metric("rillkeep_relay_streams_attached") == 0 && far.metric("rillkeep_readers") == 0
	})
	if err := p.close(t.Context()); err != nil { // their leaving is not the producer's affair
		t.Error(err)
	}
}

// Report 63, h2-head-of-line.
func TestSixHundredStreamsAttachThoughOneReaderTakesNothing(t *testing.T) {
	const many, soon = 600, 10 * time.Second
	c := open(t, 2)
	owner, far := c.nodes[0], c.nodes[1]
	ids := owned(c, owner, many)

	idle := c.idle(far, ids[0])
	defer idle.Close()
	_, cl := owner.place()
	big := strings.Repeat("nobody takes this. ", 20_000)
	for pos, i := int64(0), 0; i < 20; i++ { // 7 MB: more than all buffers and windows on the way
		ack, err := cl.Append(t.Context(), ids[0], pos, big)
		if err != nil {
			t.Fatal(err)
		}
		pos = ack.Seq
	}

	readers := make([]*reader, many)
	reading, ctx := errgroup.WithContext(c.within(2 * patience))
	began := time.Now()
	for i := range readers {
		x := newText(ids[i], 1)
		x.sent.Store(x.ends[0])
		readers[i] = &reader{c: c, text: x, only: far, pos: plane.MaxOffset} // of the big one the tip
		if i > 0 {
			reading.Go(func() error { return readers[i].run(ctx) })
		}
	}
	c.await("all attached", func() bool {
		return ctx.Err() != nil || !slices.ContainsFunc(readers[1:], func(r *reader) bool { return !r.opened.Load() })
	})
	var slowest time.Duration
	for _, r := range readers[1:] {
		slowest = max(slowest, r.since.Sub(began))
	}
	t.Logf("the last of %d attached after %v", many, slowest.Round(time.Millisecond))
	if slowest > soon {
		t.Errorf("the last attached after %v", slowest)
	}
	pushed := time.Now()
	for i, id := range ids[1:] {
		if _, err := cl.Append(ctx, id, 0, readers[i+1].text.slice(0, readers[i+1].text.ends[0])); err != nil {
			t.Fatal(err)
		}
	}
	c.await("all texts", func() bool {
		return ctx.Err() != nil || !slices.ContainsFunc(readers[1:], func(r *reader) bool { return r.at.Load() != r.text.ends[0] })
	})
	t.Logf("and all had their text %v after the first was pushed", time.Since(pushed).Round(time.Millisecond))
	if took := time.Since(pushed); took > 2*soon {
		t.Errorf("the last text came after %v", took)
	}
	for _, id := range ids[1:] {
		if _, err := cl.Close(ctx, id, wire.Close{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := reading.Wait(); err != nil {
		t.Error(err)
	}
}

// owned opens streams until a node has so many of them, and answers those.
func owned(c *cluster, owner *node, many int) (ids []string) {
	c.Helper()
	_, cl := owner.place()
	for round := 0; len(ids) < many; round++ {
		var opening errgroup.Group
		opening.SetLimit(16)
		for i := range many {
			opening.Go(func() error {
				_, err := cl.Open(c.Context(), fmt.Sprintf("own-%d-%d", round, i), wire.Open{})
				return err
			})
		}
		if err := opening.Wait(); err != nil {
			c.Fatal(err)
		}
		ids = nil
		for id, n := range c.hosts() {
			if n == owner && strings.HasPrefix(id, "own-") {
				ids = append(ids, id)
			}
		}
	}
	return ids[:many]
}

// idle is a reader that reads its answer's first bytes, and no more.
func (c *cluster) idle(n *node, id string) net.Conn {
	c.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(n.url(), "http://"))
	if err != nil {
		c.Fatal(err)
	}
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	if _, err := fmt.Fprintf(conn, "GET /v1/streams/%s HTTP/1.1\r\nHost: localhost\r\n\r\n", id); err != nil {
		c.Fatal(err)
	}
	first := make([]byte, 12)
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if _, err := conn.Read(first); err != nil || !strings.HasPrefix(string(first), "HTTP/1.1 200") {
		c.Fatal(errors.Join(err, fmt.Errorf("answered %q", first)))
	}
	return conn
}
