package plane

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const (
	high = "\xED\xA0\xBD" // D83D, the first half of 😀
	low  = "\xED\xB8\x80" // DE00, its second
)

func TestIntakeMakesTextValid(t *testing.T) {
	for _, c := range []struct {
		name     string
		deltas   []string
		want     []string // what each delta yields, and the end
		replaced int64
	}{
		{"valid text passes", []string{"aé漢😀"}, []string{"aé漢😀", ""}, 0},
		{"a pair in two deltas meets", []string{"a" + high, low + "b"}, []string{"a", "😀b", ""}, 0},
		{"a pair in one delta becomes its character", []string{high + low}, []string{"😀", ""}, 0},
		{"a pair meets byte by byte", []string{high, "\xED", "\xB8", "\x80"}, []string{"", "", "", "😀", ""}, 0},
		{"a high half with no mate is replaced", []string{high, "x"}, []string{"", "\uFFFDx", ""}, 1},
		{"a high half at the end is replaced", []string{"x" + high}, []string{"x", "\uFFFD"}, 1},
		{"a low half alone is replaced at once", []string{low + "x"}, []string{"\uFFFDx", ""}, 1},
		{"halves in the wrong order are two", []string{low, high}, []string{"\uFFFD", "", "\uFFFD"}, 2},
		{"the second of two high halves waits", []string{high, high, low}, []string{"", "\uFFFD", "😀", ""}, 1},
		{"cut bytes meet", []string{"\xF0", "\x9F\x98", "\x80"}, []string{"", "", "😀", ""}, 0},
		{"cut bytes without their rest are one", []string{"\xF0\x9F\x98", "a"}, []string{"", "\uFFFDa", ""}, 1},
		{"cut bytes at the end are one", []string{"\xE6\xBC"}, []string{"", "\uFFFD"}, 1},
		{"a half and what looked like its mate", []string{high + "\xED", "\x9F\xBF"}, []string{"", "\uFFFD\uD7FF", ""}, 1},
		{"bytes that are no text", []string{"a\xFFb\xC0\x80"}, []string{"a\uFFFDb\uFFFD\uFFFD", ""}, 3},
		{"NUL is replaced", []string{"a\x00b"}, []string{"a\uFFFDb", ""}, 1},
		{"other controls stay", []string{"\x01\x1f\x7f"}, []string{"\x01\x1f\x7f", ""}, 0},
		{"a real U+FFFD is no replacement", []string{"\uFFFD"}, []string{"\uFFFD", ""}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var in intake
			var got []string
			for _, d := range c.deltas {
				got = append(got, in.accept(d))
			}
			got = append(got, in.flush())
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("yield (-want +got):\n%s", diff)
			}
			if in.replaced != c.replaced {
				t.Errorf("replaced %d, want %d", in.replaced, c.replaced)
			}
		})
	}
}

// rawText draws bytes that are hard on an intake: text, halves, pieces, NUL.
func rawText() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{"a", "\x00", "é", "漢", "😀", high, low, high + low, "\uFFFD", "\uD7FF", "\uE000"}),
		rapid.Map(rapid.SampledFrom([]byte{0x80, 0x9F, 0xA0, 0xB0, 0xBF, 0xC2, 0xE0, 0xE6, 0xED, 0xF0, 0xF4, 0xFF}),
			func(b byte) string { return string([]byte{b}) }),
		rapid.StringN(1, 8, 16),
	)
	return rapid.Map(rapid.SliceOfN(piece, 0, 12), func(p []string) string { return strings.Join(p, "") })
}

// cuts draws a way to cut s into deltas, empty ones too.
func cuts(t *rapid.T, s string) []string {
	at := rapid.SliceOfN(rapid.IntRange(0, len(s)), 0, 8).Draw(t, "cuts")
	slices.Sort(at)
	var deltas []string
	from := 0
	for _, to := range append(at, len(s)) {
		deltas, from = append(deltas, s[from:to]), to
	}
	return deltas
}

func TestIntakeYieldsTheSameTextHoweverItIsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rawText().Draw(t, "raw")
		checkIntake(t, raw, cuts(t, raw))
	})
}

// checkIntake holds an intake to the oracle after every delta.
func checkIntake(t rapid.TB, raw string, deltas []string) {
	t.Helper()
	var in intake
	var got []uint16
	sent := ""
	take := func(text string) {
		if !utf8.ValidString(text) || strings.Contains(text, "\x00") {
			t.Fatalf("after %q: %q is no valid text", sent, text)
		}
		if Units(text) != int64(len(UnitsOf(text))) {
			t.Fatalf("Units(%q) = %d", text, Units(text))
		}
		got = append(got, UnitsOf(text)...)
	}
	for _, d := range deltas {
		sent += d
		take(in.accept(d))
		held := Held(sent)
		if want := Valid(RawUnits(sent[:len(sent)-held])); !slices.Equal(got, want) {
			t.Fatalf("after %q: %q, want %q", sent, Encode(got, true), Encode(want, true))
		}
		if in.held != sent[len(sent)-held:] {
			t.Fatalf("after %q: %q is held, want %q", sent, in.held, sent[len(sent)-held:])
		}
		if whole := RawUnits(sent[len(sent)-held:]); in.units() == 1 != (held > 0 && whole[0]>>10 == 0xD800>>10) {
			t.Fatalf("after %q: %d units held", sent, in.units())
		}
	}
	take(in.flush())
	if want := Valid(RawUnits(raw)); !slices.Equal(got, want) {
		t.Fatalf("%q became %q, want %q", raw, Encode(got, true), Encode(want, true))
	}
	if Units(raw) != int64(len(got)) {
		t.Fatalf("%q: %d units sent, %d produced", raw, Units(raw), len(got))
	}
}

// The oracle itself, by the meaning of holding back: what it says is produced
// is so whatever follows, and what it holds back is not.
func TestWhatIsHeldIsWhatTheNextBytesDecide(t *testing.T) {
	follow := []string{"", "a", low}
	for _, b := range []string{"\x80", "\x8F", "\x90", "\x9F", "\xA0", "\xB0", "\xBF"} {
		follow = append(follow, b, b+"\x80", b+"\x80\x80", b+"\x80"+low, b+low)
	}
	rapid.Check(t, func(t *rapid.T) {
		raw := rawText().Draw(t, "raw")
		held := raw[len(raw)-Held(raw):]
		produced := Valid(RawUnits(raw[:len(raw)-len(held)]))
		alone := RawUnits(held)
		undecided := held == ""
		for _, f := range follow {
			if all := Valid(RawUnits(raw + f)); len(all) < len(produced) || !slices.Equal(all[:len(produced)], produced) {
				t.Fatalf("%q: %q was produced too early: %q makes it %q", raw, Encode(produced, true), f, Encode(all, true))
			}
			joined := RawUnits(held + f)
			apart := append(slices.Clone(alone), RawUnits(f)...)
			undecided = undecided || !slices.Equal(Valid(joined), append(Valid(alone), Valid(RawUnits(f))...)) || !slices.Equal(joined, apart)
		}
		if !undecided {
			t.Fatalf("%q: %q is held for nothing", raw, held)
		}
	})
}
