package plane

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// slowText is a text as the oracle keeps it.
type slowText struct {
	units []uint16
	floor int64 // nobody asks below
}

// start is where the character begins that covers off.
func (s *slowText) start(off int64) int64 {
	if off > 0 && off < int64(len(s.units)) && s.units[off]>>10 == 0xDC00>>10 {
		return off - 1
	}
	return off
}

// agree fails unless x answers as s does at off and to.
func (s *slowText) agree(t rapid.TB, x *text, off, to int64) {
	t.Helper()
	start := s.start(off)
	at, got := x.locate(off)
	if got != start {
		t.Fatalf("locate(%d) begins at %d, want %d", off, got, start)
	}
	if want := len(Encode(s.units[x.base:start], true)); at != want {
		t.Fatalf("locate(%d) is byte %d, want %d", off, at, want)
	}
	if got := x.floor(off); got != start {
		t.Fatalf("floor(%d) = %d, want %d", off, got, start)
	}
	if to = s.start(max(to, start)); x.slice(start, to) != Encode(s.units[start:to], true) {
		t.Fatalf("slice(%d, %d) = %q, want %q", start, to, x.slice(start, to), Encode(s.units[start:to], true))
	}
}

// pieces are characters of every size, in runs that end before, at and after
// the places where text keeps its marks.
func pieces() *rapid.Generator[string] {
	character := rapid.SampledFrom([]string{"a", "é", "漢", "😀"})
	return rapid.Custom(func(t *rapid.T) string {
		n := rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(markEvery/4-2, markEvery/4+2), rapid.IntRange(0, 3*markEvery)).Draw(t, "run")
		return strings.Repeat(character.Draw(t, "character"), n)
	})
}

func TestTextAgreesWithTheSlowTextAtEveryOffset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x text
		var s slowText
		var kept []string // slices handed out, and what they were
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			piece := pieces().Draw(t, "piece")
			x.append(piece, Units(piece))
			s.units = append(s.units, UnitsOf(piece)...)
			if rapid.IntRange(0, 3).Draw(t, "trim?") == 0 {
				s.floor = s.start(rapid.Int64Range(s.floor, x.end()).Draw(t, "floor"))
				x.trim(s.floor)
			}
			view := x.slice(s.floor, x.end())
			kept = append(kept, view, strings.Clone(view))
		}
		if x.end() != int64(len(s.units)) {
			t.Fatalf("end is %d, want %d", x.end(), len(s.units))
		}
		checkMarks(t, &x)
		for _, off := range offsets(t, &s) {
			s.agree(t, &x, off, rapid.Int64Range(off, x.end()).Draw(t, "to"))
		}
		for i := 0; i < len(kept); i += 2 {
			if kept[i] != kept[i+1] {
				t.Fatal("a slice changed after it was handed out")
			}
		}
	})
}

// offsets draws places to ask at: the ends, and some between, pairs' middles
// among them.
func offsets(t *rapid.T, s *slowText) []int64 {
	end := int64(len(s.units))
	offs := rapid.SliceOfN(rapid.Int64Range(s.floor, end), 0, 20).Draw(t, "offsets")
	for i, u := range s.units[s.floor:] {
		if u>>10 == 0xDC00>>10 && i%97 == 1 {
			offs = append(offs, s.floor+int64(i))
		}
	}
	return append(offs, s.floor, end)
}

// checkMarks holds a text to the bound that makes locating cheap: no two known
// offsets lie further apart than markEvery and a character.
func checkMarks(t rapid.TB, x *text) {
	t.Helper()
	last := mark{x.ascii, int64(x.ascii)}
	for _, m := range append(slices.Clone(x.marks), mark{len(x.buf), x.units}) {
		if m.at < last.at || m.at-last.at > markEvery+utf8.UTFMax {
			t.Fatalf("marks at %d and %d", last.at, m.at)
		}
		if got := int64(len(UnitsOf(string(x.buf[:m.at])))); got != m.unit {
			t.Fatalf("the mark at byte %d says unit %d, want %d", m.at, m.unit, got)
		}
		last = m
	}
}

func TestTrimGivesMemoryBackWithoutCopyingTheSameTextOften(t *testing.T) {
	var x text
	copied, appended := 0, 0
	piece := strings.Repeat("wörter😀", 40)
	for range 2000 {
		x.append(piece, Units(piece))
		appended += len(piece)
		before := x.base
		x.trim(x.floor(max(x.base, x.end()-1000)))
		if x.base != before {
			copied += len(x.buf)
		}
		if limit := 8 * (1000*3 + len(piece)); len(x.buf) > limit {
			t.Fatalf("%d bytes are kept of 1000 units, more than %d", len(x.buf), limit)
		}
	}
	if copied > 2*appended {
		t.Errorf("%d bytes were copied for %d appended", copied, appended)
	}
}
