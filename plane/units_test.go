package plane

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestUnitsCountsUTF16(t *testing.T) {
	for _, c := range []struct {
		name string
		text string
		want int64
	}{
		{"nothing", "", 0},
		{"ASCII", "hello", 5},
		{"ASCII longer than a machine word", strings.Repeat("x", 31), 31},
		{"two bytes", "é", 1},
		{"three bytes", "漢", 1},
		{"a pair", "😀", 2},
		{"a lone half", high, 1},
		{"two halves", high + low, 2},
		{"cut bytes", "\xF0\x9F\x98", 1},
		{"bytes that are no text", "\xFF\xFF", 2},
		{"a letter at the end of many", strings.Repeat("x", 16) + "é", 17},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Units(c.text); got != c.want {
				t.Errorf("Units(%q) = %d, want %d", c.text, got, c.want)
			}
		})
	}
}

func TestUnitsAgreesWithTheSlowCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Repeat("a", rapid.IntRange(0, 20).Draw(t, "ascii")) + rawText().Draw(t, "raw")
		if got, want := Units(s), int64(len(RawUnits(s))); got != want {
			t.Fatalf("Units(%q) = %d, want %d", s, got, want)
		}
	})
}

func TestHalvesSurviveThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		units := rapid.SliceOf(rapid.OneOf(rapid.Uint16Range(0x20, 0x7F), rapid.Uint16Range(0xD700, 0xE0FF))).Draw(t, "units")
		s := decodeHalves(units)
		if want := Encode(units, true); s != want {
			t.Fatalf("decodeHalves(%x) = %q, want %q", units, s, want)
		}
		if back := encodeHalves(s); !slices.Equal(back, units) {
			t.Fatalf("%x came back as %x", units, back)
		}
	})
}

func TestSplitUnitsDividesAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rawText().Draw(t, "raw")
		all := RawUnits(s)
		n := rapid.Int64Range(0, int64(len(all))+2).Draw(t, "n")
		first, rest := splitUnits(s, n)
		if got := append(slices.Clone(first), RawUnits(rest)...); !slices.Equal(got, all) {
			t.Fatalf("splitUnits(%q, %d) = %x, %q, of %x", s, n, first, rest, all)
		}
		if int64(len(first)) != min(n, int64(len(all))) {
			t.Fatalf("splitUnits(%q, %d) has %d units", s, n, len(first))
		}
	})
}
