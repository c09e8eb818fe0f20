package sse_test

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/sse"
)

// recorded is a case of testdata/sse.json: frames, and the bytes that another
// implementation made of them.
type recorded struct {
	Name        string
	Verdict     string
	Frames      []json.RawMessage
	BytesBase64 []byte
	Text        string
	Events      []string
	KeepAliveMs int
	HoldMs      int
}

func loadRecorded[T any](t *testing.T, file string) []T {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Count int
		Cases []T
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Cases) != all.Count || all.Count == 0 {
		t.Fatalf("%s: %d cases, want %d", file, len(all.Cases), all.Count)
	}
	return all.Cases
}

// ours are the cases in which our bytes differ from the recorded ones, all of
// them, with the bytes that ours are.
var ours = map[string]struct{ why, bytes string }{
	"durable-zero": {
		"a durable has no id", `data: {"type":"durable","seq":0}` + "\n\n",
	},
	"big-offset": {
		"a durable has no id", `data: {"type":"durable","seq":9007199254740991}` + "\n\n",
	},
	"ids-go-backwards-on-durable": {
		"ids never go backwards: a durable has none",
		"id: 6\n" + `data: {"type":"chunk","from":0,"seq":6,"text":"abcdef"}` + "\n\n" +
			`data: {"type":"durable","seq":3}` + "\n\n" +
			"id: 7\n" + `data: {"type":"chunk","from":6,"seq":7,"text":"g"}` + "\n\n",
	},
	"key-order-kept": {
		"a frame is typed: its keys have one order", "id: 2\n" + `data: {"type":"chunk","from":0,"seq":2,"text":"ab"}` + "\n\n",
	},
	"extra-field": {
		"a frame is typed: it has no other fields", "id: 1\n" + `data: {"type":"chunk","from":0,"seq":1,"text":"a"}` + "\n\n",
	},
	"keepalive-idle":        {"a ping is a single line", ": ping\n: ping\n: ping\n"},
	"keepalive-default-15s": {"a ping is a single line", ": ping\n: ping\n"},
	"keepalive-between-frames": {
		"a ping is a single line",
		"id: 1\n" + `data: {"type":"chunk","from":0,"seq":1,"text":"a"}` + "\n\n: ping\n: ping\n" +
			"id: 2\n" + `data: {"type":"chunk","from":1,"seq":2,"text":"b"}` + "\n\n",
	},
}

// frameOf parses a recorded frame. A text with half pairs is recorded as a list
// of code units.
func frameOf(t *testing.T, raw []byte) plane.Frame {
	t.Helper()
	var halves struct {
		Text struct {
			UTF16 []string `json:"$utf16"`
		}
	}
	if json.Unmarshal(raw, &halves) == nil && halves.Text.UTF16 != nil {
		literal := `"\u` + strings.Join(halves.Text.UTF16, `\u`) + `"`
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(raw, &fields); err != nil {
			t.Fatal(err)
		}
		fields["text"] = json.RawMessage(literal)
		var err error
		if raw, err = json.Marshal(fields); err != nil {
			t.Fatal(err)
		}
	}
	f, err := plane.ParseFrame(raw)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return f
}

// written is what our encoder writes in a case: its frames, and a ping at each
// whole number of keep-alive intervals that pass between and after them.
func (c recorded) written(t *testing.T) (all []byte, events []string) {
	t.Helper()
	beat := c.KeepAliveMs
	if beat == 0 {
		beat = 15_000
	}
	now := 0
	write := func(b []byte) { all, events = append(all, b...), append(events, string(b)) }
	pass := func(ms int) {
		for next := now - now%beat + beat; next <= now+ms; next += beat {
			write(sse.Ping)
		}
		now += ms
	}
	for _, raw := range c.Frames {
		var wait struct{ WaitMs int }
		if json.Unmarshal(raw, &wait) == nil && wait.WaitMs > 0 {
			pass(wait.WaitMs)
			continue
		}
		write(sse.Append(nil, frameOf(t, raw)))
	}
	pass(c.HoldMs)
	return all, events
}

func TestFramesAreWrittenAsRecorded(t *testing.T) {
	used := 0
	for _, c := range loadRecorded[recorded](t, "sse.json") {
		t.Run(c.Name, func(t *testing.T) {
			if string(c.BytesBase64) != c.Text {
				t.Fatal("the case contradicts itself")
			}
			want, wantEvents := c.Text, c.Events
			if o, ok := ours[c.Name]; ok {
				used++
				want, wantEvents = o.bytes, nil
			} else if c.Verdict != "keep" {
				t.Fatalf("verdict %s, and no bytes of ours for it", c.Verdict)
			}
			all, events := c.written(t)
			if diff := cmp.Diff(want, string(all)); diff != "" {
				t.Errorf("bytes (-want +got):\n%s", diff)
			}
			if wantEvents != nil && !cmp.Equal(events, wantEvents) {
				t.Errorf("events %q, want %q", events, wantEvents)
			}
		})
	}
	if used != len(ours) {
		t.Errorf("%d of %d differences used", used, len(ours))
	}
}

func TestTheRecordedBytesAreRead(t *testing.T) {
	for _, c := range loadRecorded[recorded](t, "sse.json") {
		got := readEveryWay(t, c.BytesBase64, sse.Options{})
		if diff := cmp.Diff(modelEvents(c.Text), got.Events); diff != "" {
			t.Errorf("%s (-model +got):\n%s", c.Name, diff)
		}
	}
}

func TestIDsNeverGoBackwards(t *testing.T) {
	var wire []byte
	for _, f := range []plane.Frame{
		{Kind: plane.KindOpen, StreamID: "m", From: 4, Seq: 9, DurableSeq: 2},
		{Kind: plane.KindChunk, From: 4, Seq: 9, Text: "abcde"},
		{Kind: plane.KindDurable, Seq: 6},
		{Kind: plane.KindEnd, Seq: 9, Status: plane.StatusComplete},
	} {
		wire = sse.Append(wire, f)
	}
	var ids []string
	for _, ev := range readAll(bytes.NewReader(wire), sse.Options{}).Events {
		ids = append(ids, ev.ID)
	}
	if diff := cmp.Diff([]string{"4", "9", "9", "9"}, ids); diff != "" {
		t.Errorf("last ids (-want +got):\n%s", diff)
	}
}

func TestIDsNameTheEpochFromTheSecondOn(t *testing.T) {
	for epoch, want := range map[int64]string{0: "id: 7\n", 1: "id: 7\n", 2: "id: 7@2\n", 31: "id: 7@31\n"} {
		f := plane.Frame{Kind: plane.KindChunk, From: 6, Seq: 7, Text: "a", Epoch: epoch}
		if got := string(sse.Append(nil, f)); !strings.HasPrefix(got, want) {
			t.Errorf("epoch %d: %q", epoch, got)
		}
	}
}

// Lines that a text, an id or a message brings along must stay inside the one
// data line: each frame is one event, and comes out as it went in.
func TestNothingInAFrameCanForgeAnEvent(t *testing.T) {
	for _, evil := range []string{
		"a\n\nid: 999\ndata: {\"type\":\"end\",\"seq\":0,\"status\":\"complete\"}\n\n",
		"a\r\rdata: x\r\r", "a\r\n\r\ndata: x\r\n\r\n", "\n", "\r", "\x00", "\u0085", "\u2028", "\u2029", "\v\f",
		"\"}\n\ndata: {", `\n\ndata: x`, "\uFEFFdata: x",
	} {
		for _, f := range []plane.Frame{
			{Kind: plane.KindOpen, StreamID: evil},
			{Kind: plane.KindChunk, Seq: plane.Units(evil), Text: evil},
			{Kind: plane.KindEnd, Seq: 9, Status: plane.StatusError, Error: evil, HasError: true},
			{Kind: plane.KindEnd, Seq: 9, Status: plane.Status(evil)},
			{Kind: plane.Kind(evil)},
		} {
			wire := sse.Append(nil, f)
			if lines := bytes.Count(wire, []byte("\n")); lines > 3 || bytes.ContainsAny(wire, "\r\x00") {
				t.Errorf("%q in %s makes %d lines: %q", evil, f.Kind, lines, wire)
			}
			got := readEveryWay(t, wire, sse.Options{})
			if len(got.Events) != 1 || got.Events[0].Type != "message" || strings.Contains(got.LastID, "999") {
				t.Errorf("%q in %s reads as %+v", evil, f.Kind, got.Events)
				continue
			}
			back, err := plane.ParseFrame([]byte(got.Events[0].Data))
			if err != nil || back.StreamID != f.StreamID || back.Text != f.Text || back.Error != f.Error || back.Kind != f.Kind {
				t.Errorf("%q in %s came back as %+v, %v", evil, f.Kind, back, err)
			}
		}
	}
}

func TestExactTextMakesTheRoundTrip(t *testing.T) {
	in, err := os.ReadFile("testdata/exact.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	const want = "a\rb\r\nc\n\n  two leadtrail  \t\u0085x\u2028y\u2029\uFEFFz\n:\ndata: d\n\rend\n"
	var wire []byte
	var at int64
	for line := range strings.Lines(string(in)) {
		var delta struct{ Text string }
		if err := json.Unmarshal([]byte(line), &delta); err != nil {
			t.Fatal(err)
		}
		next := at + plane.Units(delta.Text)
		wire = sse.Append(wire, plane.Frame{Kind: plane.KindChunk, From: at, Seq: next, Text: delta.Text})
		wire = append(wire, sse.Ping...)
		at = next
	}
	var text strings.Builder
	for _, ev := range readEveryWay(t, wire, sse.Options{}).Events {
		f, err := plane.ParseFrame([]byte(ev.Data))
		if err != nil || f.Seq-f.From != plane.Units(f.Text) {
			t.Fatalf("%s: %+v, %v", ev.Data, f, err)
		}
		text.WriteString(f.Text)
	}
	if text.String() != want || at != 49 || len(want) != 56 {
		t.Errorf("%q of %d units, want %q", text.String(), at, want)
	}
}

// A parser that gives out an event at every blank line sees none for a ping.
func TestAPingHasNoBlankLine(t *testing.T) {
	chunk := plane.Frame{Kind: plane.KindChunk, Seq: 1, Text: "a"}
	wire := append(sse.Retry(2500), sse.Ping...)
	wire = append(sse.Append(wire, chunk), sse.Ping...)
	wire = sse.Append(append(wire, sse.Ping...), chunk)
	if blank := strings.Count(string(wire), "\n\n"); blank != 2 || bytes.HasPrefix(wire, []byte("\n")) {
		t.Errorf("%d blank lines for 2 events: %q", blank, wire)
	}
	r := sse.NewReader(bytes.NewReader(wire), sse.Options{})
	for range 2 {
		if ev, err := r.Next(); err != nil || ev.ID != "1" {
			t.Errorf("%+v, %v", ev, err)
		}
	}
	if retry, ok := r.Retry(); retry.Milliseconds() != 2500 || !ok {
		t.Errorf("retry %v", retry)
	}
}

func TestRetryIsAWholeLine(t *testing.T) {
	for ms, want := range map[int]string{0: "retry: 0\n", 3000: "retry: 3000\n", -1: "retry: 0\n", math.MaxInt32: "retry: 2147483647\n"} {
		if got := string(sse.Retry(ms)); got != want {
			t.Errorf("%d: %q, want %q", ms, got, want)
		}
	}
}

func TestHeadersKeepProxiesFromHoldingBack(t *testing.T) {
	h := http.Header{}
	sse.SetHeaders(h)
	want := http.Header{
		"Content-Type":      {"text/event-stream; charset=utf-8"},
		"Cache-Control":     {"no-cache, no-transform"},
		"X-Accel-Buffering": {"no"},
	}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

func TestWritingAllocatesNothing(t *testing.T) {
	buf := make([]byte, 0, 1024)
	f := plane.Frame{Kind: plane.KindChunk, From: 10, Seq: 15, Text: "ab\ncd", Epoch: 2}
	if allocs := testing.AllocsPerRun(100, func() { buf = sse.Append(buf[:0], f) }); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkAppend(b *testing.B) {
	f := plane.Frame{Kind: plane.KindChunk, From: 1230, Seq: 1234, Text: "word"}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = sse.Append(buf[:0], f)
	}
}
