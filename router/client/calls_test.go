package client_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
)

func TestCallsTakeAStreamThroughItsLife(t *testing.T) {
	t.Parallel()
	c := connect(t, client.Config{Server: openNode(t, node.Config{Policy: manual()}).URL()})
	ctx := within(t, patience)
	meta := json.RawMessage(`{"chat":17}`)

	opened, err := c.Open(ctx, "m1", wire.Open{Producer: "app", Meta: meta})
	want := wire.Opened{StreamID: "m1", Epoch: 1, Status: plane.StatusStreaming, ProducerEpoch: "1.1"}
	if diff := cmp.Diff(want, opened); err != nil || diff != "" {
		t.Fatalf("open: %v (-want +got):\n%s", err, diff)
	}
	ack, err := c.Append(ctx, "m1", 0, "a😀")
	if want := (wire.Ack{Seq: 3}); err != nil || ack != want {
		t.Errorf("append: %+v, %v, want %+v", ack, err, want)
	}
	ack, err = c.Append(ctx, "m1", 1, "😀b")
	if want := (wire.Ack{Seq: 4}); err != nil || ack != want {
		t.Errorf("append that repeats: %+v, %v, want %+v", ack, err, want)
	}
	ack, err = c.Flush(ctx, "m1")
	if want := (wire.Ack{Seq: 4, DurableSeq: 4}); err != nil || ack != want {
		t.Errorf("flush: %+v, %v, want %+v", ack, err, want)
	}
	appendAt(t, c, "m1", 4, "c")
	opened, err = c.Open(ctx, "m1", wire.Open{Resume: true, Producer: "app"})
	want = wire.Opened{StreamID: "m1", Seq: 5, DurableSeq: 4, Epoch: 1, Status: plane.StatusStreaming, ProducerEpoch: "1.2"}
	if diff := cmp.Diff(want, opened); err != nil || diff != "" {
		t.Errorf("resume: %v (-want +got):\n%s", err, diff)
	}
	end := wire.Sealed{Status: plane.StatusComplete, Seq: 5, DurableSeq: 5}
	for range 2 {
		if sealed, err := c.Close(ctx, "m1", wire.Close{}); err != nil || sealed != end {
			t.Errorf("close: %+v, %v, want %+v", sealed, err, end)
		}
	}
	if sealed, err := c.Fail(ctx, "m1", "late"); err != nil || sealed != end {
		t.Errorf("fail after close: %+v, %v, want %+v", sealed, err, end)
	}
	snap, err := c.Snapshot(ctx, "m1")
	wantSnap := wire.Snapshot{
		Stream: wire.Stream{
			StreamID: "m1", Status: plane.StatusComplete, Seq: 5, Epoch: 1, Producer: "app", Meta: meta,
			CreatedAt: snap.CreatedAt, UpdatedAt: snap.UpdatedAt, EndedAt: snap.EndedAt,
		},
		DurableSeq: 5, Text: "a😀bc",
	}
	if diff := cmp.Diff(wantSnap, snap); err != nil || diff != "" {
		t.Errorf("snapshot: %v (-want +got):\n%s", err, diff)
	}
	if snap.EndedAt == nil || snap.CreatedAt.IsZero() || time.Since(snap.UpdatedAt) > time.Hour {
		t.Errorf("times of the snapshot: %v, %v, %v", snap.CreatedAt, snap.UpdatedAt, snap.EndedAt)
	}
}

func TestStreamsEndAsTheirProducersSay(t *testing.T) {
	t.Parallel()
	c := start(t)
	for name, tt := range map[string]struct {
		end  func(id string) (wire.Sealed, error)
		want plane.Status
	}{
		"closed": {func(id string) (wire.Sealed, error) { return c.Close(t.Context(), id, wire.Close{}) }, plane.StatusComplete},
		"interrupted": {func(id string) (wire.Sealed, error) {
			return c.Close(t.Context(), id, wire.Close{Status: plane.StatusInterrupted})
		}, plane.StatusInterrupted},
		"failed": {func(id string) (wire.Sealed, error) { return c.Fail(t.Context(), id, "the model said \"no\"\n") }, plane.StatusError},
		"cancelled": {func(id string) (wire.Sealed, error) {
			if asked, err := c.Cancel(t.Context(), id); err != nil || asked.Status != plane.StatusStreaming {
				return asked, fmt.Errorf("cancel: %v", err)
			}
			return c.Close(t.Context(), id, wire.Close{})
		}, plane.StatusCancelled},
	} {
		open(t, c, name)
		appendAt(t, c, name, 0, "text")
		sealed, err := tt.end(name)
		if want := (wire.Sealed{Status: tt.want, Seq: 4, DurableSeq: 4}); err != nil || sealed != want {
			t.Errorf("%s: %+v, %v, want %+v", name, sealed, err, want)
		}
		snap, err := c.Snapshot(t.Context(), name)
		if err != nil || snap.Status != tt.want || snap.Text != "text" {
			t.Errorf("%s: snapshot %+v, %v", name, snap, err)
		}
		if wantError := map[bool]string{true: "the model said \"no\"\n"}[name == "failed"]; snap.Error != wantError {
			t.Errorf("%s: error %q, want %q", name, snap.Error, wantError)
		}
	}
}

func TestListingIsFilteredAndPaged(t *testing.T) {
	t.Parallel()
	c := start(t)
	for _, id := range []string{"b2", "a/1", "b1", "c", "b3"} {
		open(t, c, id)
	}
	closed(t, c, "b2")
	for _, tt := range []struct {
		query client.Query
		want  []string
	}{
		{client.Query{}, []string{"a/1", "b1", "b2", "b3", "c"}},
		{client.Query{Limit: 2}, []string{"a/1", "b1", "|", "b2", "b3", "|", "c"}},
		{client.Query{Prefix: "b", Limit: 2}, []string{"b1", "b2", "|", "b3"}},
		{client.Query{Status: "streaming", Prefix: "b"}, []string{"b1", "b3"}},
		{client.Query{Status: "complete"}, []string{"b2"}},
		{client.Query{After: "b2"}, []string{"b3", "c"}},
		{client.Query{Prefix: "a/"}, []string{"a/1"}},
		{client.Query{Prefix: "x&status=complete"}, nil},
	} {
		var got []string
		for q := tt.query; ; {
			page, err := c.List(t.Context(), q)
			if err != nil {
				t.Fatalf("%+v: %v", tt.query, err)
			}
			for _, s := range page.Streams {
				got = append(got, s.StreamID)
			}
			if q.After = page.Next; q.After == "" {
				break
			}
			got = append(got, "|")
		}
		if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tt.query, diff)
		}
	}
}

var oddIDs = []string{
	"a/b", "/", "//", "a//b/", "a/append", "append", "a%2Fb", "%", "%zz", "100%", "..", ".", "../x", "...", "a/../b",
	"a b", " ", "a+b", "ü/😀", "日本", "a?b#c&d=e;f", `\`, `"`, "'", "<script>", ":id", "*", "{}", "~", "@", "a,b",
	strings.Repeat("x", 256), strings.Repeat("é", 128),
}

// exercise opens a stream, feeds it in every way and reads it in every way.
func exercise(t *testing.T, c *client.Client, id string) {
	t.Helper()
	if opened := open(t, c, id); opened.StreamID != id {
		t.Errorf("%q was opened as %q", id, opened.StreamID)
	}
	seq := appendAt(t, c, id, 0, "text of ")
	ack, err := c.Pump(within(t, patience), id, seq, deltas(id), nil)
	if want := seq + plane.Units(id); err != nil || ack.Seq != want {
		t.Errorf("pump into %q: %+v, %v, want seq %d", id, ack, err, want)
	}
	closed(t, c, id)
	if got := textOf(t, c, id); got != "text of "+id {
		t.Errorf("snapshot of %q: %q", id, got)
	}
	if got := follow(within(t, patience), c, id, 0, ""); got.err != nil || got.text() != "text of "+id {
		t.Errorf("follow of %q: %q, %v", id, got.text(), got.err)
	}
	page, err := c.List(t.Context(), client.Query{Prefix: id, Limit: 1})
	if err != nil || len(page.Streams) != 1 || page.Streams[0].StreamID != id {
		t.Errorf("listing of %q: %+v, %v", id, page, err)
	}
}

func TestIDsMayHoldAnyPrintableText(t *testing.T) {
	t.Parallel()
	c := start(t)
	for _, id := range oddIDs {
		exercise(t, c, id)
	}
}

func TestServerMayBeBelowAPath(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	target, err := url.Parse(n.URL())
	if err != nil {
		t.Fatal(err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	front := httptest.NewServer(http.StripPrefix("/rill/keep", &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}))
	t.Cleanup(front.Close)
	for i, end := range []string{"", "/"} {
		c := connect(t, client.Config{Server: front.URL + "/rill/keep" + end})
		for _, id := range []string{"m", "a/b", "..", "%"} {
			exercise(t, c, fmt.Sprintf("%d%s", i, id))
		}
	}

	s := &script{answers: []answer{{status: http.StatusNotFound}}}
	c := s.client(t, client.Config{Server: "https://node/rill%20keep/x%2Fy/"})
	for id, want := range map[string]string{"a/.": "a%2F.", "..": "%2E%2E", ".": "%2E", "%": "%25"} {
		follow(within(t, patience), c, id, 0, "")
		if want = "/rill%20keep/x%2Fy/v1/streams/" + want; s.path != want {
			t.Errorf("the path of %s is %s, want %s", id, s.path, want)
		}
	}
}

func TestServerMustBeABaseURL(t *testing.T) {
	for _, server := range []string{
		"", "localhost:8080", "127.0.0.1:8080", "ftp://host", "http://", "/v1", "http://host?access_token=hush",
		"http://user:hush@ho st", "postgres://user:hush@host",
	} {
		_, err := client.New(client.Config{Server: server})
		if err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: %v, want an error that shows no secret", server, err)
		}
	}
}
