package sse_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/sse"
)

// modelEvents is the standard's parser for a stream that is all there, written
// for plainness: what Reader must agree with.
func modelEvents(in string) []event {
	in = strings.TrimPrefix(in, "\uFEFF")
	in = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(in)
	lines := strings.Split(in, "\n")
	var events []event
	var data, kind, id, lastID string
	for _, line := range lines[:len(lines)-1] { // the last one has no end
		if line == "" {
			lastID = id
			if data != "" {
				if kind == "" {
					kind = "message"
				}
				events = append(events, event{lastID, kind, strings.TrimSuffix(data, "\n"), false})
			}
			data, kind = "", ""
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "data":
			data += value + "\n"
		case "event":
			kind = value
		case "id":
			if !strings.Contains(value, "\x00") {
				id = value
			}
		}
	}
	return events
}

func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		"data: a\r\n\r\ndata: b\r\rid: 1\ndata: c\n\n",
		"\uFEFFdata: x\n\n: ping\nevent: e\ndata\ndata:\n\n",
		"id: a\x00b\nretry: 5\ndata: \uFEFF\n\r\n\rdata: cut",
	} {
		f.Add([]byte(seed), uint64(1))
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		want := modelEvents(string(in))
		rng := rand.New(rand.NewPCG(seed, 0))
		var cuts []int
		for at := rng.IntN(7); at < len(in); at += 1 + rng.IntN(7) {
			cuts = append(cuts, at)
		}
		for _, c := range [][]int{nil, cuts} {
			got := readAll(&pieces{data: in, cuts: c}, sse.Options{})
			if diff := cmp.Diff(want, got.Events); diff != "" {
				t.Fatalf("cut at %v (-model +got):\n%s", c, diff)
			}
		}
		whole := readAll(&pieces{data: in}, sse.Options{Final: true, Limit: 64})
		if diff := cmp.Diff(whole.Events, readAll(&pieces{data: in, cuts: cuts}, sse.Options{Final: true, Limit: 64}).Events); diff != "" {
			t.Fatalf("with a limit, cut at %v (-whole +cut):\n%s", cuts, diff)
		}
	})
}

// What Append writes, Reader and plane.ParseFrame read as it was, with pings
// between and in any pieces.
func FuzzRoundTrip(f *testing.F) {
	f.Add("m1", "text\r\n\r\ndata: x", "error\n\nid: 5", uint64(3))
	f.Add("\u2028", "\xED\xA0\xBD", "", uint64(9))
	f.Fuzz(func(t *testing.T, id, text, failure string, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		from, epoch := rng.Int64N(1<<40), rng.Int64N(3)
		seq := from + plane.Units(text)
		frames := []plane.Frame{
			{Kind: plane.KindOpen, StreamID: id, From: from, Seq: seq, DurableSeq: from, Epoch: epoch},
			{Kind: plane.KindChunk, From: from, Seq: seq, Text: text, Epoch: epoch},
			{Kind: plane.KindDurable, Seq: seq, Epoch: epoch},
			{Kind: plane.KindEnd, Seq: seq, Status: plane.StatusError, Error: failure, HasError: true, Epoch: epoch},
		}
		var wire []byte
		for _, fr := range frames {
			wire = append(sse.Append(wire, fr), sse.Ping...)
		}
		var cuts []int
		for at := rng.IntN(40); at < len(wire); at += 1 + rng.IntN(40) {
			cuts = append(cuts, at)
		}
		got := readAll(&pieces{data: wire, cuts: cuts}, sse.Options{})
		if len(got.Events) != len(frames) {
			t.Fatalf("%d events for %d frames: %q", len(got.Events), len(frames), wire)
		}
		at := from
		for i, ev := range got.Events {
			back, err := plane.ParseFrame([]byte(ev.Data))
			if err != nil {
				t.Fatalf("%s: %v", ev.Data, err)
			}
			if again := plane.AppendJSON(nil, back); string(again) != ev.Data {
				t.Errorf("%s came back as %s", ev.Data, again)
			}
			if back.Kind != frames[i].Kind || plane.Units(back.Text) != plane.Units(frames[i].Text) {
				t.Errorf("%+v came back as %+v", frames[i], back)
			}
			if i > 0 {
				at = seq
			}
			if offset, e, ok := plane.ParseResume(ev.ID); offset != at || e != max(epoch, 1) || !ok {
				t.Errorf("id %q of frame %d, want %d in epoch %d", ev.ID, i, at, epoch)
			}
		}
	})
}
