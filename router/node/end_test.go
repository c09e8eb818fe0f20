package node_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
)

// wantEnding fails the test unless a reader, the snapshot and the listing all
// say that a stream ended so.
func wantEnding(t *testing.T, n *running, id string, status plane.Status, text string) {
	t.Helper()
	got, r := n.text(id, "")
	snap := n.snapshot(id)
	if got != text || snap.Text != text || r.end.Status != status || snap.Status != status || r.end.Seq != plane.Units(text) {
		t.Errorf("%q: a reader got %q %s at %d, the snapshot is %q %s; want %q %s",
			id, got, r.end.Status, r.end.Seq, snap.Text, snap.Status, text, status)
	}
	if snap.EndedAt == nil || snap.EndedAt.Before(snap.CreatedAt) {
		t.Errorf("%q: created %v, ended %v", id, snap.CreatedAt, snap.EndedAt)
	}
}

func TestAStopFreezesTheTextAndNamesTheEnd(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{}, func(t *testing.T, n *running) {
		n.open("S")
		n.push("S", 0, "one two three")
		live := n.reads("S", "")
		a := n.do(http.MethodPost, path("S", "cancel"), "")
		if a.status != http.StatusAccepted || decode[wire.Sealed](t, a).Status != plane.StatusStreaming {
			t.Errorf("stop: %d %s", a.status, a.body)
		}
		wantError(t, "append after the stop", n.do(http.MethodPost, path("S", "append"), `{"text":" GHOST"}`), 409, "cancelled")
		wantError(t, "pump after the stop", n.do(http.MethodPost, path("S", "pump"), `{"text":" GHOST"}`), 409, "cancelled")
		if sealed := n.seal("S"); sealed.Status != plane.StatusCancelled || sealed.Seq != 13 || sealed.DurableSeq != 13 {
			t.Errorf("finish: %+v", sealed)
		}
		if err := live.rest(); err != nil || live.end.Status != plane.StatusCancelled {
			t.Errorf("live: %+v, %v", live.end, err)
		}
		wantEnding(t, n, "S", plane.StatusCancelled, "one two three")

		n.open("E")
		if _, err := n.client.Cancel(t.Context(), "E"); err != nil { // before any text
			t.Fatal(err)
		}
		if got, r := n.text("E", ""); got != "" || r.end.Status != plane.StatusCancelled { // its producer stays silent
			t.Errorf("stopped before any text: %q, %s", got, r.end.Status)
		}

		n = n.restart()
		wantEnding(t, n, "S", plane.StatusCancelled, "one two three")
		wantEnding(t, n, "E", plane.StatusCancelled, "")
	})
}

func TestOfAStopAndAFinishOneWinsForAll(t *testing.T) {
	t.Parallel()
	const races = 100
	onEachStore(t, node.Config{}, func(t *testing.T, n *running) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var group errgroup.Group
		group.SetLimit(8)
		for i := range races {
			group.Go(func() error { return raceStop(ctx, n, fmt.Sprint("race", i)) })
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		n = n.restart()
		kinds := map[plane.Status]int{}
		page, err := n.client.List(t.Context(), client.Query{Prefix: "race"})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range page.Streams {
			kinds[s.Status]++
			if text, r := n.text(s.StreamID, ""); text != "text" || r.end.Status != s.Status {
				t.Errorf("%s: %q %s, listed as %s", s.StreamID, text, r.end.Status, s.Status)
			}
		}
		if kinds[plane.StatusCancelled]+kinds[plane.StatusComplete] != races {
			t.Errorf("they ended so: %v", kinds)
		}
	})
}

// raceStop stops and finishes a stream in the same moment. All who are told how
// it ended must be told the same.
func raceStop(ctx context.Context, n *running, id string) error {
	if _, err := n.client.Open(ctx, id, wire.Open{}); err != nil {
		return err
	}
	if _, err := n.client.Append(ctx, id, 0, "text"); err != nil {
		return err
	}
	readers := make([]*reader, 2)
	for i := range readers {
		var err error
		if readers[i], err = n.join(ctx, id, ""); err != nil {
			return err
		}
	}
	var sealed wire.Sealed
	var stopped, finished error
	var both sync.WaitGroup
	both.Go(func() { _, stopped = n.client.Cancel(ctx, id) })
	both.Go(func() { sealed, finished = n.client.Close(ctx, id, wire.Close{}) })
	both.Wait()
	if err := errors.Join(stopped, finished); err != nil {
		return err
	}
	for _, r := range readers {
		if err := r.rest(); err != nil {
			return err
		}
		if r.end.Status != sealed.Status || r.pos != 4 {
			return fmt.Errorf("%s: a reader was told %s at %d, the producer %s", id, r.end.Status, r.pos, sealed.Status)
		}
	}
	snap, err := n.client.Snapshot(ctx, id)
	if err == nil && snap.Status != sealed.Status {
		err = fmt.Errorf("%s: the store says %s, the producer was told %s", id, snap.Status, sealed.Status)
	}
	return err
}

func TestASealIsTheSameWhenItIsRepeated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, action, body string
		status             plane.Status
		message            string
	}{
		{"close", "close", "", plane.StatusComplete, ""},
		{"close with an empty body", "close", "{}", plane.StatusComplete, ""},
		{"close complete", "close", `{"status":"complete"}`, plane.StatusComplete, ""},
		{"close interrupted", "close", `{"status":"interrupted"}`, plane.StatusInterrupted, ""},
		{"fail", "fail", `{"error":"the model is gone"}`, plane.StatusError, "the model is gone"},
		{"fail without a word", "fail", "", plane.StatusError, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := openNode(t, node.Config{Linger: 50 * time.Millisecond})
			n.open("m1")
			n.push("m1", 0, "text")
			want := wire.Sealed{Status: c.status, Seq: 4, DurableSeq: 4}
			repeat := func(when string) {
				t.Helper()
				for _, again := range [][2]string{{c.action, c.body}, {"close", ""}, {"fail", `{"error":"other"}`}, {"close", `{"status":"interrupted"}`}} {
					a := n.do(http.MethodPost, path("m1", again[0]), again[1])
					if a.status != http.StatusOK || decode[wire.Sealed](t, a) != want {
						t.Errorf("%s, %s: %d %s, want %+v", when, again[0], a.status, a.body, want)
					}
				}
				a := n.do(http.MethodPost, path("m1", "cancel"), "")
				if a.status != http.StatusAccepted || decode[wire.Sealed](t, a) != want {
					t.Errorf("%s, cancel: %d %s, want %+v", when, a.status, a.body, want)
				}
				if text, r := n.text("m1", ""); text != "text" || r.end.Status != c.status || r.end.Error != c.message ||
					r.end.HasError != (c.status == plane.StatusError) {
					t.Errorf("%s: read %q %+v", when, text, r.end)
				}
				if snap := n.snapshot("m1"); ended(t, snap) != c.status || snap.Error != c.message {
					t.Errorf("%s: %+v", when, snap)
				}
			}
			repeat("at first")
			await(t, "the linger is over", n.retired)
			repeat("after the linger")
			n = n.restart()
			repeat("after a restart")
		})
	}
}

func TestASealThatIsNotUnderstoodSealsNothing(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	n.open("m1")
	for _, c := range [][2]string{
		{"close", `{"status":"cancelled"}`}, {"close", `{"status":"streaming"}`}, {"close", `{"status":"error"}`},
		{"close", `{"status":7}`}, {"close", `[]`}, {"close", `{`}, {"close", `x`}, {"fail", `{"error":7}`}, {"fail", `"x"`},
		{"close", `{"staus":"interrupted"}`}, {"close", `{"status":"complete"}{}`}, {"fail", `{"message":"x"}`},
	} {
		wantError(t, c[0]+" "+c[1], n.do(http.MethodPost, path("m1", c[0]), c[1]), http.StatusBadRequest, "bad_request")
	}
	if snap := n.snapshot("m1"); snap.Status != plane.StatusStreaming {
		t.Errorf("it is %s", snap.Status)
	}
	for _, action := range []string{"close", "fail", "cancel", "flush"} {
		wantError(t, action+" of an unknown stream", n.do(http.MethodPost, path("none", action), ""), http.StatusNotFound, "not_found")
	}
}

func TestAnErrorMessageCannotForgeAnEvent(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{}, func(t *testing.T, n *running) {
		const message = "bad\n\nid: 0\ndata: {\"type\":\"end\",\"seq\":0,\"status\":\"complete\"}\r\n\r\u2028<script>\u0000\xff"
		const stored = "bad\n\nid: 0\ndata: {\"type\":\"end\",\"seq\":0,\"status\":\"complete\"}\r\n\r\u2028<script>\uFFFD\uFFFD"
		n.open("m1")
		n.push("m1", 0, "text")
		live := n.reads("m1", "")
		if _, err := n.client.Fail(t.Context(), "m1", message); err != nil {
			t.Fatal(err)
		}
		if err := live.rest(); err != nil || live.pos != 4 || live.end.Error != stored {
			t.Errorf("live: %+v, %v", live.end, err)
		}
		if _, r := n.text("m1", ""); r.end.Error != stored {
			t.Errorf("lingering: %q", r.end.Error)
		}
		s := n.dial()
		s.get("HTTP/1.1", "/v1/streams/m1?from=4")
		s.head()
		if events := strings.Split(strings.TrimSuffix(s.cutOff(), "\n\n"), "\n\n"); len(events) != 2 { // open, end
			t.Errorf("%d events: %q", len(events), events)
		}
		n = n.restart()
		if _, r := n.text("m1", ""); r.end.Error != stored {
			t.Errorf("after a restart: %q", r.end.Error)
		}
	})
}

func TestASilentProducerIsNotWaitedForAfterAStop(t *testing.T) {
	t.Parallel()
	policy := plane.DefaultPolicy()
	policy.CancelGrace = 100 * time.Millisecond
	n := openNode(t, node.Config{Policy: policy})
	n.open("m1")
	n.push("m1", 0, "half an ans")
	r := n.reads("m1", "")
	for range 3 { // it may be asked for again
		if a := n.do(http.MethodPost, path("m1", "cancel"), ""); a.status != http.StatusAccepted {
			t.Fatal(a)
		}
	}
	if err := r.rest(); err != nil || r.end.Status != plane.StatusCancelled || r.end.Seq != 11 {
		t.Errorf("%+v, %v", r.end, err)
	}
	wantEnding(t, n, "m1", plane.StatusCancelled, "half an ans")
	if sealed := n.seal("m1"); sealed.Status != plane.StatusCancelled {
		t.Errorf("the producer's own end: %+v", sealed)
	}
}

func TestAStopCountsWhenWhoAskedHasLeftAndTheStoreIsSlow(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{Policy: patient()}, func(t *testing.T, n *running) {
		n.open("m1")
		n.push("m1", 0, "text")
		r := n.reads("m1", "")
		release := n.block()
		s := n.dial()
		s.send("POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n", path("m1", "cancel"))
		await(t, "the producer is told", func() bool {
			return n.do(http.MethodPost, path("m1", "append")+"?from=0", `{"text":"text"}`).err().Code == "cancelled"
		})
		s.reset()
		release()
		if err := r.rest(); err != nil || r.end.Status != plane.StatusCancelled {
			t.Errorf("%+v, %v", r.end, err)
		}
		wantEnding(t, n, "m1", plane.StatusCancelled, "text")
	})
}
