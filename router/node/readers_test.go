package node_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
)

// words is a text of so many words, no two alike.
func words(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "w%d😀 ", i)
	}
	return b.String()
}

func TestAReaderMayJoinAnywhereAtAnyTime(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{Policy: eager()}, func(t *testing.T, n *running) {
		n.open("m1")
		text := words(400)
		units := plane.Units(text)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var readers errgroup.Group
		join := func(from int64) {
			p := []string{"auto", "live", "durable"}[rand.IntN(3)]
			r, err := n.join(ctx, "m1", fmt.Sprintf("from=%d&plane=%s", from, p))
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			r.into = &got
			readers.Go(func() error {
				if err := r.rest(); err != nil {
					return fmt.Errorf("%s from %d: %w", p, from, err)
				}
				if r.from > from || got.String() != plane.Skip(text, r.from) {
					return fmt.Errorf("%s from %d: opened at %d, got %d units of %d", p, from, r.from, plane.Units(got.String()), units)
				}
				return nil
			})
		}
		pos := int64(0)
		for rest := text; rest != ""; {
			delta := rest[:len(rest)-len(plane.Skip(rest, 1+rand.Int64N(120)))]
			if delta == "" { // inside a pair
				continue
			}
			pos = n.push("m1", pos, delta)
			rest = rest[len(delta):]
			join(rand.Int64N(units)) // also beyond the end, which is then the end so far
		}
		n.seal("m1")
		if err := readers.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestTwoTabsSeeTheSame(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	n.open("m1")
	n.push("m1", 0, "before ")
	one, other := n.watch("m1", ""), n.watch("m1", "")
	n.push("m1", 7, "after")
	n.seal("m1")
	if one, other := one(), other(); one != "before after" || other != one {
		t.Errorf("got %q and %q", one, other)
	}
}

func TestAReloadedPageGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	n.open("m1")
	text := words(200)
	var got strings.Builder
	id, pos := "", int64(0)
	for rest := text; rest != ""; {
		delta := rest[:strings.Index(rest, " ")+1]
		rest = rest[len(delta):]
		pos = n.push("m1", pos, delta)
		header := []string{}
		if id != "" {
			header = []string{"Last-Event-ID", id}
		}
		r := n.reads("m1", "from=0", header...) // the URL stays as it was
		r.into = &got
		if err := r.until(pos); err != nil {
			t.Fatal(err)
		}
		id = r.events.LastEventID()
		_ = r.body.Close()
	}
	if got.String() != text {
		t.Error("the pieces are not the text")
	}
}

func TestAReaderWithoutAPositionGetsTheTextFromTheBeginning(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	n.open("m1")
	n.push("m1", 0, "first half, ")
	r := n.reads("m1", "")
	n.push("m1", 12, "second half")
	if err := r.until(23); err != nil || r.from != 0 || r.open.Seq != 12 {
		t.Errorf("%+v, %v", r.open, err)
	}
}

func TestAReaderThatIsEarlyWaitsForTheFirstToken(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	n.open("m1")
	var opened []*reader
	for _, p := range []string{"auto", "live", "durable"} {
		r := n.reads("m1", "plane="+p)
		if f, err := r.next(); err != nil || f.Kind != plane.KindOpen || f.Seq != 0 { // at once
			t.Fatalf("%s: %+v, %v", p, f, err)
		}
		opened = append(opened, r)
	}
	n.push("m1", 0, "token")
	n.flush("m1")
	for _, r := range opened {
		if err := r.until(5); err != nil {
			t.Error(err)
		}
	}
}

func TestNoReaderMissesTheTextAroundTheEnd(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{Linger: 20 * time.Millisecond}, func(t *testing.T, n *running) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for i := range 10 { // the readers come before, during and after the end, and after the linger
			id := fmt.Sprint("m", i)
			n.open(id)
			n.push(id, 0, "all of the text")
			var readers errgroup.Group
			began := make(chan struct{})
			for range 4 {
				readers.Go(func() error {
					var got strings.Builder
					<-began
					for until := time.Now().Add(60 * time.Millisecond); time.Now().Before(until); {
						got.Reset()
						r, err := n.join(ctx, id, "")
						if err != nil {
							return err
						}
						r.into = &got
						if err := r.rest(); err != nil || got.String() != "all of the text" || r.end.Kind != plane.KindEnd {
							return fmt.Errorf("got %q, %+v, %w", got.String(), r.end, err)
						}
					}
					return nil
				})
			}
			close(began)
			n.seal(id)
			if err := readers.Wait(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestAReplayMeetsTheLiveTextExactlyOnce(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	n.open("m1")
	backlog := strings.Repeat("0123456789abcde ", 128<<10) // 2 MiB
	n.pumpText("m1", backlog)
	pos := int64(len(backlog))
	var readers errgroup.Group
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	want := backlog
	for i := range 200 {
		delta := fmt.Sprintf("live %d ", i)
		want += delta
		pos = n.push("m1", pos, delta)
		if i%50 == 0 {
			r, err := n.join(ctx, "m1", "from=0")
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			r.into = &got
			readers.Go(func() error { // the transcript knows that nothing came twice
				if err := r.rest(); err != nil {
					return err
				}
				if got.String() != want {
					return fmt.Errorf("got %d bytes, want %d", got.Len(), len(want))
				}
				return nil
			})
		}
	}
	n.seal("m1")
	if err := readers.Wait(); err != nil {
		t.Error(err)
	}
}

func TestAReaderThatLeavesIsNoticed(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	n.open("m1")
	readers := func(want float64) func() bool {
		return func() bool { return n.metrics()["rillkeep_readers"] == want }
	}
	for _, proto := range []string{"HTTP/1.1", "HTTP/1.0"} {
		for _, p := range []string{"auto", "live", "durable"} {
			s, other := n.dial(), n.dial()
			s.get(proto, "/v1/streams/m1?plane="+p)
			other.get(proto, "/v1/streams/m1?plane="+p)
			s.head()
			other.head()
			await(t, "both readers are counted", readers(2))
			_ = s.conn.Close()
			await(t, "the one that left is not", readers(1))
			other.reset()
			await(t, "nor the one that broke", readers(0))
		}
	}
	if gone := n.metrics()[`rillkeep_readers_closed_total{reason="gone"}`]; gone != 12 {
		t.Errorf("%v readers are gone, want 12", gone)
	}
}

func TestMoreReadersThanTheLimitAreRefused(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Limits: router.Limits{Readers: 2}})
	n.open("m1")
	one, _ := n.reads("m1", ""), n.reads("m1", "plane=durable")
	for _, p := range []string{"auto", "live", "durable"} {
		a := n.do(http.MethodGet, path("m1")+"?plane="+p, "")
		wantError(t, p, a, http.StatusServiceUnavailable, "unavailable")
		if a.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", p)
		}
	}
	_ = one.body.Close()
	await(t, "there is room again", func() bool {
		a, err := n.try(t.Context(), http.MethodGet, path("m1"), "", "Accept", "application/json")
		return err == nil && a.status == http.StatusOK && n.metrics()["rillkeep_readers"] == 1
	})
	n.reads("m1", "")
}

func TestNoTimeoutEndsAWholeResponse(t *testing.T) {
	t.Parallel()
	limits := router.Limits{
		Stall: 200 * time.Millisecond, Ping: 50 * time.Millisecond, Recheck: 50 * time.Millisecond,
		BodyTime: time.Second, HeaderTime: time.Second,
	}
	n := openNode(t, node.Config{Limits: limits, Policy: eager()})
	n.open("m1")
	n.open("pumped")
	old := n.dial()
	old.get("HTTP/1.0", "/v1/streams/m1")
	readers := []*reader{n.reads("m1", ""), n.reads("m1", "plane=durable")}
	producer := n.pump("pumped", "", "text/plain")
	pos := int64(0)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range 15 { // many times as long as each limit
		<-tick.C
		pos = n.push("m1", pos, "x")
		producer.piece("y")
		for _, r := range readers {
			if err := r.until(pos); err != nil {
				t.Fatal(err)
			}
		}
	}
	producer.finish()
	if line := producer.last(); line.Seq != 15 {
		t.Errorf("pump: %+v", line)
	}
	n.seal("m1")
	if got := old.cutOff(); strings.Count(got, `"text":"x"`) != 15 || !strings.Contains(got, `"type":"end"`) {
		t.Errorf("HTTP/1.0: %q", got)
	}
}

func TestAStreamThatIsNotThere(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{}, func(t *testing.T, n *running) {
		for _, query := range []string{"", "?plane=auto", "?plane=durable", "?from=7"} {
			wantError(t, query, n.do(http.MethodGet, path("none")+query, ""), http.StatusNotFound, "not_found")
			a := n.do(http.MethodGet, path("none")+query, "", "Last-Event-ID", "5")
			wantError(t, query+" with an id", a, http.StatusNotFound, "not_found")
		}
		wantError(t, "snapshot", n.do(http.MethodGet, path("none"), "", "Accept", "application/json"), 404, "not_found")
		r := n.reads("none", "plane=live")
		if f, err := r.next(); err != nil || f.Kind != plane.KindAbsent {
			t.Errorf("live: %+v, %v", f, err)
		}
		if err := r.rest(); err != nil {
			t.Error(err)
		}
		if _, err := n.client.Open(t.Context(), "none", wire.Open{}); err != nil {
			t.Errorf("looking made it: %v", err)
		}
	})
}
