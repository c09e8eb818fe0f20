package plane_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/plane"
)

// mirror is a mirror, and a reader who joined it as soon as it could be.
type mirror struct {
	*plane.Mirror
	from   int64
	reader *plane.Cursor
	got    []plane.Frame
	codes  []string
}

func newMirror(from int64, cfg plane.MirrorConfig) *mirror {
	return &mirror{Mirror: plane.NewMirror(cfg, "m1", from, 0), from: from}
}

// take notes what there is to be noted after a step of the source.
func (m *mirror) take(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		v, ok := errors.AsType[plane.Violation](err)
		if !ok {
			tb.Fatalf("%q is no violation", err)
		}
		m.codes = append(m.codes, string(v))
	}
	if m.reader == nil && m.Begun() {
		m.reader = m.Join(m.from)
	}
	for m.reader != nil {
		f, ok, _ := m.reader.Poll()
		if !ok {
			return
		}
		m.got = append(m.got, f)
	}
}

// feed gives m the source's next frames.
func (m *mirror) feed(tb testing.TB, frames ...plane.Frame) {
	tb.Helper()
	for _, f := range frames {
		m.take(tb, m.Feed(f))
	}
}

// shown is what frames show a reader who splices: from where, which text, with U+FFFD
// in place of what cannot stay, what is known to be durable, and the terminal frame.
func shown(frames []plane.Frame) string {
	var text []uint16
	var from, durable int64
	var terminal string
	for _, f := range frames {
		switch f.Kind {
		case plane.KindOpen:
			from, durable = f.From, f.DurableSeq
		case plane.KindChunk:
			// A source may give what lies below the offset that was asked for, too.
			units := plane.RawUnits(f.Text)[max(0, from-f.From):]
			text = append(text[:max(0, f.From-from)], units...)
		case plane.KindDurable:
			durable = max(durable, f.Seq)
		default:
			terminal = lines([]plane.Frame{f})
		}
	}
	return fmt.Sprintf("from %d: %q, durable %d, %s", from, plane.Encode(plane.Valid(text), true), durable, terminal)
}

// CO-01 to CO-24: all recorded sources, those whose recorded answer is not wanted,
// too: the reader of a mirror is shown what Conform lets pass.
func TestAMirrorShowsWhatConformPasses(t *testing.T) {
	for _, c := range recordedCases[conformCase](t, "conform.json") {
		t.Run(c.Name, func(t *testing.T) {
			conform := plane.NewConform(c.StreamID, c.From)
			m := &mirror{Mirror: plane.NewMirror(plane.MirrorConfig{}, c.StreamID, c.From, 0), from: c.From}
			var passed []plane.Frame
			var codes []string
			for _, in := range c.source(t) {
				out, err := conformStep(conform, nil, in)
				passed = append(passed, out...)
				if v, ok := errors.AsType[plane.Violation](err); ok {
					codes = append(codes, string(v))
				}
				m.take(t, m.step(in))
			}
			if want, got := shown(passed), shown(m.got); want != got {
				t.Errorf("shown  %s\npassed %s", got, want)
			}
			if fmt.Sprint(codes) != fmt.Sprint(m.codes) {
				t.Errorf("violations %v, want %v", m.codes, codes)
			}
			if m.Done() != conform.Done() || m.Pos() != conform.Pos() {
				t.Errorf("it is done %v at %d, want %v at %d", m.Done(), m.Pos(), conform.Done(), conform.Pos())
			}
		})
	}
}

func (m *mirror) step(in string) error {
	switch in {
	case "END":
		return m.Break(nil)
	case "FAIL":
		return m.Break(errors.New("connection reset"))
	}
	f, err := plane.ParseFrame([]byte(in))
	if err != nil {
		return m.Break(err)
	}
	return m.Feed(f)
}

func TestAMirrorTellsWhatItsSourceToldOfTheLengths(t *testing.T) {
	m := newMirror(5, plane.MirrorConfig{})
	m.feed(t, open(5, 100, 90))
	m.feed(t, chunk(5, "abcde"))
	want := open(5, 100, 90)
	want.StreamID = "m1"
	if got := lines(m.got); got != lines([]plane.Frame{want, chunk(5, "abcde")}) {
		t.Errorf("got %s", got) // durable 90 is past the text so far
	}
	late := m.Join(8)
	f, _, _ := late.Poll()
	want.From = 8
	if lines([]plane.Frame{f}) != lines([]plane.Frame{want}) {
		t.Errorf("who came late got %+v", f)
	}
	m.feed(t, chunk(10, strings.Repeat("x", 85)))
	if last := m.got[len(m.got)-1]; last.Kind != plane.KindDurable || last.Seq != 90 {
		t.Errorf("got %+v, when the text is there", last)
	}
}

func TestADurableMarkOfAMirrorNeverFalls(t *testing.T) {
	m := newMirror(5, plane.MirrorConfig{}) // its open is made up, and may say too much
	m.feed(t, chunk(5, "abc"), durable(4), durable(6))
	for _, f := range m.got {
		if f.Kind == plane.KindDurable && f.Seq != 6 {
			t.Errorf("got %+v", f)
		}
	}
}

func TestAReaderBelowAMirrorsTextIsSentElsewhere(t *testing.T) {
	m := newMirror(5, plane.MirrorConfig{})
	m.feed(t, open(5, 5, 3))
	if f, _, _ := m.Join(4).Poll(); f.Kind != plane.KindStale || f.FloorSeq != 5 || f.DurableSeq != 3 {
		t.Errorf("got %+v", f)
	}
	if f, _, _ := m.Join(9).Poll(); f.Kind != plane.KindOpen || f.From != 5 {
		t.Errorf("past its end: got %+v", f)
	}
}

// Offsets inside a pair come with sources that say no open.
func TestAMirrorThatBeginsInsideAPairShowsTheWholeCharacter(t *testing.T) {
	m := newMirror(2, plane.MirrorConfig{})
	m.feed(t, durable(1)) // makes up an open at 2
	m.feed(t, chunk(1, "😀b"))
	if len(m.got) != 2 || m.got[1].From != 1 || m.got[1].Text != "😀b" {
		t.Errorf("got %s", lines(m.got))
	}
}

func TestReadersOfAMirrorReadItsTextBeforeTheyAreSentElsewhere(t *testing.T) {
	m := newMirror(0, plane.MirrorConfig{})
	m.feed(t, open(0, 0, 0))
	behind := m.Join(0)
	m.feed(t, chunk(0, "abc"))
	_ = m.Break(nil)
	m.Retire()
	var got []plane.Frame
	for {
		f, ok, _ := behind.Poll()
		if !ok {
			break
		}
		got = append(got, f)
	}
	if s := shown(got); s != "from 0: \"abc\", durable 0, {\"type\":\"stale\",\"floorSeq\":3,\"durableSeq\":0}\n" {
		t.Errorf("got %s", s)
	}
}

func TestAMirrorThatNobodyReadsIsDesertedOnce(t *testing.T) {
	deserted := 0
	budget := plane.NewBudget(1 << 20)
	m := plane.NewMirror(plane.MirrorConfig{Budget: budget, Deserted: func() { deserted++ }}, "m1", 0, 0)
	_ = m.Feed(open(0, 0, 0))
	_ = m.Feed(chunk(0, "text"))
	a, b := m.Join(0), m.Join(2)
	if m.Readers() != 2 || budget.Used() == 0 {
		t.Errorf("%d readers, %d bytes", m.Readers(), budget.Used())
	}
	a.Close()
	if deserted != 0 {
		t.Error("deserted too early")
	}
	b.Close()
	b.Close()
	if deserted != 1 || m.Readers() != 0 {
		t.Errorf("deserted %d times, %d readers", deserted, m.Readers())
	}
	_ = m.Break(nil)
	m.Retire()
	if budget.Used() != 0 {
		t.Errorf("%d bytes are used in the end", budget.Used())
	}
}

func TestReadersOfAMirrorShareTheBytesOfAFrame(t *testing.T) {
	m := newMirror(0, plane.MirrorConfig{})
	m.feed(t, open(0, 0, 0))
	readers := make([]*plane.Cursor, 10)
	for i := range readers {
		readers[i] = m.Join(0)
		_, _, _ = readers[i].Poll()
	}
	m.feed(t, chunk(0, "text"))
	encoded := 0
	for _, c := range readers {
		f, _, _ := c.Poll()
		f.Encoded(func(dst []byte, f plane.Frame) []byte { encoded++; return plane.AppendJSON(dst, f) })
	}
	if encoded > 1 {
		t.Errorf("encoded %d times", encoded)
	}
}

// Its end frame may be on its way yet.
func TestWhoJoinsAMirrorIsToldThatItsStreamHasEnded(t *testing.T) {
	for _, ended := range []bool{true, false} {
		m := plane.NewMirror(plane.MirrorConfig{}, "m1", 0, 1)
		if err := m.Feed(plane.Frame{Kind: plane.KindOpen, StreamID: "m1", Seq: 3, DurableSeq: 3, Ended: ended}); err != nil {
			t.Fatal(err)
		}
		c := m.Join(0)
		if f, ok, _ := c.Poll(); !ok || f.Kind != plane.KindOpen || f.Ended != ended {
			t.Errorf("of one that has ended %v, told %+v", ended, f)
		}
		c.Close()
		m.Retire()
	}
}
