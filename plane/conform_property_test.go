package plane_test

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"rillkeep.dev/rillkeep/plane"
)

// truth is a produced text that can be cut at every offset but inside a pair.
type truth struct {
	units   []uint16
	borders []int64
}

func newTruth(s string) truth {
	var w truth
	for _, r := range s {
		w.borders = append(w.borders, int64(len(w.units)))
		w.units = utf16.AppendRune(w.units, r)
	}
	w.borders = append(w.borders, int64(len(w.units)))
	return w
}

func (w truth) end() int64 { return int64(len(w.units)) }

func (w truth) text(from, to int64) string { return string(utf16.Decode(w.units[from:to])) }

func (w truth) chunk(from, to int64) plane.Frame {
	return plane.Frame{Kind: plane.KindChunk, From: from, Seq: to, Text: w.text(from, to)}
}

// draw returns a border between two offsets.
func (w truth) draw(t *rapid.T, from, to int64, label string) int64 {
	var among []int64
	for _, b := range w.borders {
		if from <= b && b <= to {
			among = append(among, b)
		}
	}
	return rapid.SampledFrom(among).Draw(t, label)
}

// source is another process that sends a stream, well or badly.
type source struct {
	truth  truth
	sent   int64 // how far it sent; what lies below was sent, or lost
	honest bool  // nothing was lost, disordered or made up so far
	out    []plane.Frame
	failed bool
}

func (s *source) send(frames ...plane.Frame) { s.out = append(s.out, frames...) }

// act does one thing that sources do. joined is where the pass is, begun whether
// it gave anything yet.
func (s *source) act(t *rapid.T, joined int64, begun bool) {
	next := s.truth.draw(t, s.sent, s.truth.end(), "next")
	back := s.truth.draw(t, 0, s.sent, "back")
	switch rapid.SampledFrom([]string{
		"next", "next", "next", "next", "again", "overlap", "durable", "open", "reattach",
		"lose", "swap", "wild", "long", "wild durable", "fail", "cut", "end",
	}).Draw(t, "act") {
	case "next":
		s.send(s.truth.chunk(s.sent, next))
		s.sent = next
	case "again":
		s.send(s.truth.chunk(back, s.truth.draw(t, back, s.sent, "to")))
	case "overlap":
		s.send(s.truth.chunk(back, next))
		s.sent = next
	case "durable":
		s.send(durable(back))
	case "open":
		s.send(open(back, s.truth.end(), back))
		if !begun { // it counts: the text follows from there
			s.sent = back
		}
	case "reattach":
		s.sent = min(joined, s.truth.end())
		s.send(open(s.sent, s.truth.end(), 0))
	case "lose":
		s.sent, s.honest = next, false
	case "swap":
		last := s.truth.draw(t, next, s.truth.end(), "last")
		s.send(s.truth.chunk(next, last), s.truth.chunk(s.sent, next))
		s.sent, s.honest = last, false
	case "wild":
		s.honest = false
		s.send(chunk(1_000_000, "abc"))
	case "long":
		s.honest = false
		f := s.truth.chunk(s.sent, next)
		f.Text += "x"
		s.send(f)
	case "wild durable":
		s.send(durable(s.truth.end() + 3))
	case "fail":
		s.honest, s.failed = false, true
	case "cut":
		s.honest = false
		s.send(stale(1, 1), stale(2, 2))
	case "end":
		s.send(end(s.sent, plane.StatusComplete))
	}
}

// checkLegal holds a subscription joined at from to the laws that any reader
// relies upon, whoever sent it.
func checkLegal(t interface{ Fatalf(string, ...any) }, from int64, frames []plane.Frame) {
	pos, told := from, int64(0)
	for i, f := range frames {
		if i > 0 && frames[i-1].Terminal() {
			t.Fatalf("frames after the terminal one:\n%s", lines(frames))
		}
		if (i == 0) != (f.Kind == plane.KindOpen) && (i > 0 || f.Kind != plane.KindStale && f.Kind != plane.KindAbsent) {
			t.Fatalf("the only open is not first:\n%s", lines(frames))
		}
		ok := true
		switch f.Kind {
		case plane.KindOpen:
			ok = f.StreamID == "m1" && 0 <= f.From && f.From <= pos && f.From <= f.Seq && f.DurableSeq <= f.Seq
			pos = f.From
		case plane.KindChunk:
			ok = f.From <= pos && pos < f.Seq && plane.Units(f.Text) == f.Seq-f.From
			pos = f.Seq
		case plane.KindDurable:
			ok = told <= f.Seq && f.Seq <= pos
			told = f.Seq
		case plane.KindEnd:
			ok = 0 <= f.Seq && f.Seq <= pos && f.Status.Ended()
		case plane.KindStale:
			ok = f.FloorSeq >= 0 && f.DurableSeq >= 0
		}
		if !ok {
			t.Fatalf("frame %d is not legal:\n%s", i, lines(frames))
		}
	}
}

func TestConformGivesATruePrefixWhateverTheSourceDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ab\x00é漢😀\n")), 0, 40, -1).Draw(t, "text")
		s := &source{truth: newTruth(text), honest: true}
		from := s.truth.draw(t, 0, s.truth.end(), "from")
		reader := plane.NewAccumulator("m1", 0, s.truth.text(0, from))
		if rapid.IntRange(0, 9).Draw(t, "past the end") == 0 {
			from, s.sent = s.truth.end()+7, s.truth.end()
			reader = plane.NewAccumulator("m1", from, "")
			s.send(open(s.truth.end(), s.truth.end(), 0))
		} else if s.sent = from; rapid.Bool().Draw(t, "replays all") {
			s.sent = 0
		}
		c := plane.NewConform("m1", from)
		var got []plane.Frame
		step := func(failed bool, frames []plane.Frame) {
			for _, f := range frames {
				var err error
				if got, err = c.Step(got, f); err != nil && s.honest {
					t.Fatalf("honest frame refused: %v", err)
				}
			}
			if failed {
				got, _ = c.End(got, nil)
			}
		}
		step(false, s.out)
		for range rapid.IntRange(1, 30).Draw(t, "acts") {
			s.out = nil
			s.act(t, c.Pos(), len(got) > 0)
			step(s.failed, s.out)
		}
		ended := c.Done()
		step(false, []plane.Frame{s.truth.chunk(min(c.Pos(), s.truth.end()), s.truth.end()), end(s.truth.end(), plane.StatusComplete)})

		checkLegal(t, from, got)
		if !c.Done() {
			t.Fatalf("no terminal frame")
		}
		for _, f := range got {
			if f.Kind == plane.KindChunk && f.Text != s.truth.text(f.From, f.Seq) {
				t.Fatalf("not the text that was produced: %+v", f)
			}
			if err := reader.Apply(f); err != nil {
				t.Fatalf("a reader refuses %+v: %v", f, err)
			}
		}
		if !strings.HasSuffix(s.truth.text(0, min(reader.Pos(), s.truth.end())), reader.Text()) {
			t.Fatalf("the reader shows %q", reader.Text())
		}
		if s.honest && !ended && from <= s.truth.end() && reader.Text() != text {
			t.Fatalf("the reader shows %q of %q", reader.Text(), text)
		}
	})
}

func FuzzConform(f *testing.F) {
	for _, c := range recordedCases[conformCase](f, "conform.json") {
		f.Add(c.From, strings.Join(c.source(f), "\n"))
	}
	f.Fuzz(func(t *testing.T, from int64, source string) {
		if len(source) > 30_000 {
			t.Skip("longer than the text that is held for comparison")
		}
		c := plane.NewConform("m1", from)
		from = c.Pos()
		var got []plane.Frame
		for in := range strings.SplitSeq(source, "\n") {
			before := len(got)
			got, _ = conformStep(c, got, in)
			if len(got) > before+2 {
				t.Fatalf("%d frames for one", len(got)-before)
			}
		}
		got, _ = c.End(got, nil)
		checkLegal(t, from, got)
		if !c.Done() || !got[len(got)-1].Terminal() {
			t.Fatalf("no terminal frame:\n%s", lines(got))
		}
		reader := plane.NewAccumulator("m1", from, "")
		for _, f := range got {
			if err := reader.Apply(f); err != nil {
				t.Fatalf("a reader refuses it: %v\n%s", err, lines(got))
			}
		}
		if reader.Pos() != c.Pos() {
			t.Fatalf("the reader is at %d, the pass at %d", reader.Pos(), c.Pos())
		}
	})
}

func BenchmarkConform(b *testing.B) {
	for _, units := range []int{5, 4096} {
		b.Run(strconv.Itoa(units), func(b *testing.B) {
			text := long(units)
			c := plane.NewConform("m1", 0)
			var out []plane.Frame
			b.SetBytes(int64(units))
			b.ReportAllocs()
			for b.Loop() {
				f := plane.Frame{Kind: plane.KindChunk, From: c.Pos(), Seq: c.Pos() + int64(units), Text: text}
				out, _ = c.Step(out[:0], f)
			}
		})
	}
}
