package node_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/node"
)

// patient is a policy that makes nothing durable unless it is flushed.
func patient() plane.Policy {
	p := plane.DefaultPolicy()
	p.Units, p.Interval = 1<<20, time.Hour
	return p
}

func TestTheDurablePlaneShowsOnlyWhatIsCommitted(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{Policy: patient(), Limits: router.Limits{DurablePoll: 10 * time.Millisecond}}, func(t *testing.T, n *running) {
		n.open("m1")
		n.push("m1", 0, "committed ")
		n.flush("m1")
		n.push("m1", 10, "produced ")
		live, durable := n.reads("m1", "plane=live"), n.reads("m1", "plane=durable")
		if err := live.until(19); err != nil {
			t.Fatal(err)
		}
		var kinds []plane.Kind
		for durable.durable < 10 {
			f, err := durable.next()
			if err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, f.Kind)
		}
		if got := fmt.Sprint(kinds); got != "[open chunk durable]" || durable.pos != 10 || durable.open.Seq != 10 || durable.open.DurableSeq != 10 {
			t.Errorf("got %s to %d, %+v", got, durable.pos, durable.open)
		}
		// A reader that is ahead of the durable text is taken to its end.
		if r := n.reads("m1", "plane=durable&from=15"); r.until(10) != nil || r.from != 10 {
			t.Errorf("from 15: opened at %d", r.from)
		}
		n.flush("m1")
		if f, err := durable.next(); err != nil || f.Kind != plane.KindChunk || f.From != 10 || f.Seq != 19 {
			t.Errorf("after the flush: %+v, %v", f, err)
		}
		n.push("m1", 19, "sealed")
		n.seal("m1")
		if err := durable.rest(); err != nil || durable.end.Seq != 25 || durable.pos != 25 {
			t.Errorf("at %d: %+v, %v", durable.pos, durable.end, err)
		}
	})
}

func TestAfterTheLingerTheDurablePlaneGoesOn(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{Linger: 30 * time.Millisecond}, func(t *testing.T, n *running) {
		text := words(300)
		n.whole("m1", text)
		after := func(when string, n *running) {
			t.Helper()
			for _, p := range []string{"auto", "durable"} {
				for _, from := range []int64{0, 2, 100, plane.Units(text)} { // the first word is w0😀: 2 begins the pair
					got, r := n.text("m1", fmt.Sprintf("plane=%s&from=%d", p, from))
					if got != plane.Skip(text, from) || r.end.Status != plane.StatusComplete || !r.open.Ended {
						t.Errorf("%s, %s from %d: %d bytes, %+v", when, p, from, len(got), r.end)
					}
				}
			}
			r := n.reads("m1", "plane=live")
			if f, err := r.next(); err != nil || f.Kind != plane.KindAbsent {
				t.Errorf("%s, live: %+v, %v", when, f, err)
			}
		}
		await(t, "the linger is over", n.retired)
		after("after the linger", n)
		after("after a restart", n.restart())
	})
}

func TestDurableTextIsReadInPages(t *testing.T) {
	t.Parallel()
	limits := router.Limits{PageUnits: 101, DurablePoll: 10 * time.Millisecond}
	onEachStore(t, node.Config{Limits: limits, Policy: eager()}, func(t *testing.T, n *running) {
		text := strings.Repeat("😀漢a", 300) // a page's end is often inside a pair
		n.open("m1")
		live := n.watch("m1", "plane=durable")
		pos := int64(0)
		for rest := text; rest != ""; {
			delta := rest[:len(rest)-len(plane.Skip(rest, 397))]
			pos = n.push("m1", pos, delta)
			rest = rest[len(delta):]
		}
		n.flush("m1")
		checkPages(t, n, text)
		n.seal("m1")
		if got := live(); got != text {
			t.Errorf("while it was produced: %d bytes of %d", len(got), len(text))
		}
		n = n.restart()
		checkPages(t, n, text)
		if got, r := n.text("m1", "from=1"); got != text || r.from != 0 {
			t.Errorf("from inside a pair: %d", r.from)
		}
	})
}

// checkPages reads stream m1 from places around the borders of pages.
func checkPages(t *testing.T, n *running, text string) {
	t.Helper()
	units := plane.Units(text)
	for _, from := range []int64{0, 100, 101, 102, 103, 801, units - 101, units - 1} {
		r := n.reads("m1", fmt.Sprintf("plane=durable&from=%d", from))
		var got strings.Builder
		r.into = &got
		if err := r.until(units); err != nil {
			t.Fatal(err)
		}
		if r.from > from || from-r.from > 1 || got.String() != plane.Skip(text, r.from) {
			t.Errorf("from %d: opened at %d, %d bytes", from, r.from, got.Len())
		}
		_ = r.body.Close()
	}
}

func TestASnapshotIsTheStreamAsItIs(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{Policy: patient()}, func(t *testing.T, n *running) {
		a := n.do(http.MethodPost, path("m1"), `{"producer":"app 7","meta":{"b": 1,"a":["\u0000é"]}}`)
		want := `{"streamId":"m1","seq":0,"durableSeq":0,"epoch":1,"status":"streaming","producerEpoch":"1.1"}` + "\n"
		if a.status != http.StatusCreated || a.body != want {
			t.Errorf("open: %d %s", a.status, a.body)
		}
		n.push("m1", 0, "durable ")
		n.flush("m1")
		n.push("m1", 8, "produced")
		for _, accept := range []string{"application/json", "application/json, */*", "text/html, application/json;q=0.9"} {
			a := n.do(http.MethodGet, path("m1"), "", "Accept", accept)
			snap := decode[map[string]any](t, a)
			if snap["text"] != "durable produced" || snap["seq"] != 16.0 || snap["durableSeq"] != 8.0 || snap["status"] != "streaming" ||
				snap["epoch"] != 1.0 || snap["producer"] != "app 7" || !strings.Contains(a.body, `"meta":{"b":1,"a":["\u0000é"]}`) {
				t.Errorf("%s: %s", accept, a.body)
			}
			for _, field := range []string{"error", "endedAt"} {
				if _, ok := snap[field]; ok {
					t.Errorf("live with %s: %s", field, a.body)
				}
			}
		}
		if _, err := n.client.Fail(t.Context(), "m1", "broken"); err != nil {
			t.Fatal(err)
		}
		checkSealed(t, "lingering", n)
		checkSealed(t, "after a restart", n.restart())
	})
}

// checkSealed looks at the snapshot of stream m1, which failed.
func checkSealed(t *testing.T, when string, n *running) {
	t.Helper()
	snap := n.snapshot("m1")
	if snap.Text != "durable produced" || snap.Seq != 16 || snap.DurableSeq != 16 || snap.Status != plane.StatusError ||
		snap.Error != "broken" || snap.EndedAt == nil || snap.UpdatedAt.Before(snap.CreatedAt) {
		t.Errorf("%s: %+v", when, snap)
	}
}
