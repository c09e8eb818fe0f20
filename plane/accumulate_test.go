package plane_test

import (
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/plane"
)

func TestAccumulatorPlacesChunksByTheirOffset(t *testing.T) {
	absent := plane.Frame{Kind: plane.KindAbsent}
	other := open(0, 0, 0)
	other.StreamID = "other"
	tests := []struct {
		name   string
		joined string // text known at the join
		frames []plane.Frame
		want   string
		refuse plane.Violation // of the last frame; "" for none
	}{
		{"tail of what was joined at", "The quick", []plane.Frame{open(9, 9, 9), chunk(9, " brown")}, "The quick brown", ""},
		{"no open first", "", []plane.Frame{chunk(0, "abc"), chunk(3, "def")}, "abcdef", ""},
		{"repeat that adds", "", []plane.Frame{chunk(0, "abcdef"), chunk(3, "defghi")}, "abcdefghi", ""},
		{"replay from the start", "", []plane.Frame{chunk(0, "abcdef"), chunk(0, "abcdefgh")}, "abcdefgh", ""},
		{"older replay", "", []plane.Frame{chunk(0, "abcdef"), chunk(0, "abc")}, "abcdef", ""},
		{"empty chunk", "ab", []plane.Frame{chunk(2, ""), chunk(2, "c")}, "abc", ""},
		{"offsets in units", "a😀b", []plane.Frame{chunk(4, "c"), chunk(3, "bcd")}, "a😀bcd", ""},
		{"repeat of wide text", "漢😀字", []plane.Frame{chunk(1, "😀字é")}, "漢😀字é", ""},
		{"gap", "abc", []plane.Frame{chunk(4, "e")}, "abc", plane.ChunkGap},
		{"nothing after a gap", "abc", []plane.Frame{chunk(4, "e"), chunk(3, "de")}, "abc", ""},
		{"open after a gap", "abc", []plane.Frame{chunk(4, "e"), open(3, 5, 0), chunk(3, "de")}, "abcde", ""},
		{"too short a text", "abc", []plane.Frame{{Kind: plane.KindChunk, From: 3, Seq: 5, Text: "d"}}, "abc", plane.ChunkSpan},
		{"negative offset", "abc", []plane.Frame{chunk(-2, "yzabcd")}, "abc", plane.ChunkSpan},
		{"repeat with other text", "abc", []plane.Frame{chunk(1, "bXd")}, "abc", plane.ChunkDiffers},
		{"older replay of other text", "abc", []plane.Frame{chunk(0, "xy")}, "abc", plane.ChunkDiffers},
		{"another stream's open", "", []plane.Frame{other}, "", plane.OpenMalformed},
		{"nothing after another stream's open", "", []plane.Frame{other, chunk(0, "a")}, "", ""},
		{"open past the text", "abc", []plane.Frame{open(4, 4, 0)}, "abc", plane.OpenBeyond},
		{"open below the text", "abcdef", []plane.Frame{open(3, 3, 3), chunk(3, "XYZW")}, "abcXYZW", ""},
		{"open below wide text", "漢😀字é", []plane.Frame{open(3, 3, 3), chunk(3, "X")}, "漢😀X", ""},
		{"open at the start", "abcdef", []plane.Frame{open(0, 2, 0), chunk(0, "xy")}, "xy", ""},
		{"open and durable carry no text", "ab", []plane.Frame{open(2, 9, 0), durable(99)}, "ab", ""},
		{"end short of the text", "", []plane.Frame{chunk(0, "abcd"), end(2, plane.StatusInterrupted)}, "abcd", ""},
		{"end past the text", "abcd", []plane.Frame{end(5, plane.StatusComplete)}, "abcd", plane.EndOutruns},
		{"end without a status", "abcd", []plane.Frame{end(4, "")}, "abcd", plane.EndMalformed},
		{"nothing after the end", "", []plane.Frame{chunk(0, "done"), end(4, plane.StatusComplete), chunk(4, "MORE")}, "done", ""},
		{"nothing after stale", "", []plane.Frame{chunk(0, "part"), stale(9, 9), chunk(4, "MORE")}, "part", ""},
		{"nothing after absent", "so far", []plane.Frame{absent, chunk(6, "MORE")}, "so far", ""},
		{"open after absent", "so far", []plane.Frame{absent, open(6, 6, 6), chunk(6, "!")}, "so far!", ""},
		{"unknown kind", "a", []plane.Frame{{Kind: "heartbeat"}, chunk(1, "b")}, "ab", ""},
		{"halves of a pair", "a\xed\xa0\xbd", []plane.Frame{chunk(2, "\xed\xb8\x80b")}, "a😀b", ""},
		{"half that stays alone", "a\xed\xa0\xbd", []plane.Frame{chunk(2, "b")}, "a\ufffdb", ""},
		{"half that waits", "", []plane.Frame{chunk(0, "a\xed\xa0\xbd")}, "a", ""},
		{"repeat of half a pair", "a\xed\xa0\xbd", []plane.Frame{chunk(1, "😀b")}, "a😀b", ""},
		{"repeat from inside a pair", "a😀", []plane.Frame{chunk(2, "\xed\xb8\x80b")}, "a😀b", ""},
		{"other half of a pair", "a\xed\xa0\xbd", []plane.Frame{chunk(1, "漢b")}, "a", plane.ChunkDiffers},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := plane.NewAccumulator("m1", 0, tt.joined)
			var err error
			for _, f := range tt.frames {
				err = a.Apply(f)
			}
			if a.Text() != tt.want {
				t.Errorf("shows %q, want %q", a.Text(), tt.want)
			}
			if tt.refuse != "" {
				wantViolation(t, err, tt.refuse)
			} else if err != nil {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestAccumulatorRewindsToANewEpoch(t *testing.T) {
	a := plane.NewAccumulator("m1", 0, "")
	apply := func(f plane.Frame) {
		t.Helper()
		if err := a.Apply(f); err != nil {
			t.Fatal(err)
		}
	}
	wantShown := func(text, resume string) {
		t.Helper()
		if a.Text() != text || a.Resume() != resume {
			t.Errorf("shows %q at %s, want %q at %s", a.Text(), a.Resume(), text, resume)
		}
	}
	apply(inEpoch(1, open(0, 0, 0)))
	apply(inEpoch(1, chunk(0, "seven and nine")))
	wantShown("seven and nine", "14")
	apply(inEpoch(2, open(5, 5, 5))) // the owner died with what it had not stored
	wantShown("seven", "5@2")
	apply(inEpoch(2, chunk(5, " of ten")))
	wantShown("seven of ten", "12@2")
	apply(inEpoch(3, open(12, 20, 20))) // began at 20: nothing is lost
	wantShown("seven of ten", "12@3")

	wantViolation(t, a.Apply(inEpoch(2, open(12, 14, 12))), plane.EpochChanged)
	apply(inEpoch(3, open(12, 20, 20)))
	wantViolation(t, a.Apply(inEpoch(2, chunk(12, "x"))), plane.EpochChanged)
	wantShown("seven of ten", "12@3")
}

func TestAccumulatorKeepsWhatItShowsInOneEpoch(t *testing.T) {
	a := plane.NewAccumulator("m1", 0, "")
	for _, f := range []plane.Frame{open(0, 0, 0), chunk(0, "a😀b"), open(1, 4, 0)} {
		if err := a.Apply(inEpoch(1, f)); err != nil {
			t.Fatal(err)
		}
	}
	if a.Text() != "a😀b" {
		t.Errorf("shows %q before the repeat came", a.Text())
	}
	if err := a.Apply(inEpoch(1, chunk(1, "😀bc"))); err != nil || a.Text() != "a😀bc" {
		t.Errorf("shows %q, %v", a.Text(), err)
	}
	if err := a.Apply(inEpoch(1, open(1, 3, 0))); err != nil || a.Text() != "a" {
		t.Errorf("shows %q, %v, though so much was never produced", a.Text(), err)
	}
}

func TestAccumulatorMayBeginInTheMiddle(t *testing.T) {
	a := plane.NewAccumulator("m1", 100, "")
	for _, f := range []plane.Frame{open(100, 103, 0), chunk(100, "abc")} {
		if err := a.Apply(f); err != nil {
			t.Fatal(err)
		}
	}
	if a.Text() != "abc" || a.Pos() != 103 {
		t.Errorf("shows %q up to %d", a.Text(), a.Pos())
	}
	if err := a.Apply(open(40, 40, 40)); err != nil || a.Text() != "" || a.Pos() != 40 {
		t.Errorf("after a rewind: %q up to %d, %v", a.Text(), a.Pos(), err)
	}
}

func TestAccumulatorTextStaysAsItWasGiven(t *testing.T) {
	a := plane.NewAccumulator("m1", 0, "abcdef")
	before := a.Text()
	for _, f := range []plane.Frame{open(3, 3, 3), chunk(3, strings.Repeat("x", 100))} {
		if err := a.Apply(f); err != nil {
			t.Fatal(err)
		}
	}
	if before != "abcdef" {
		t.Errorf("changed to %q", before)
	}
}

func BenchmarkAccumulator(b *testing.B) {
	a := plane.NewAccumulator("m1", 0, "")
	b.ReportAllocs()
	for b.Loop() {
		if a.Pos() > 1<<20 {
			a = plane.NewAccumulator("m1", 0, "")
		}
		if err := a.Apply(plane.Frame{Kind: plane.KindChunk, From: a.Pos(), Seq: a.Pos() + 6, Text: "token "}); err != nil {
			b.Fatal(err)
		}
		if len(a.Text()) == 0 {
			b.Fatal("no text")
		}
	}
}
