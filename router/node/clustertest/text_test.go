package clustertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"unicode/utf16"

	"rillkeep.dev/rillkeep/plane"
)

// script is what a producer says: known before, so that each piece that is seen
// somewhere can be compared.
type script struct {
	deltas []string
	units  []uint16
}

var words = []string{"Strom ", "überall ", "日本語 ", "😀👩‍🚀 ", "und ", "a ", "\n\n- **b**: ", "naïve ", "𝒳 "}

// newScript makes a script of n deltas, which are told apart by their numbers.
func newScript(rng *rand.Rand, n int) *script {
	var deltas []string
	for i := range n {
		delta := fmt.Sprintf("%d:", i)
		for range rng.IntN(6) {
			delta += words[rng.IntN(len(words))]
		}
		deltas = append(deltas, delta)
	}
	return scriptOf(deltas)
}

func scriptOf(deltas []string) *script {
	s := &script{deltas: deltas}
	for _, delta := range deltas {
		s.units = append(s.units, utf16.Encode([]rune(delta))...)
	}
	return s
}

// text is the script from one offset to another.
func (s *script) text(from, to int64) string {
	if from < 0 || from > to || to > s.len() {
		return "text that nobody produced"
	}
	return string(utf16.Decode(s.units[from:to]))
}

func (s *script) len() int64 { return int64(len(s.units)) }

// is reports whether text is what the script has from an offset on.
func (s *script) is(from int64, text string) bool {
	return s.text(from, from+plane.Units(text)) == text
}

// until is the script up to an offset, and then another.
func (s *script) until(at int64, next *script) *script {
	return &script{
		deltas: append([]string{s.text(0, at)}, next.deltas...),
		units:  append(s.units[:at:at], next.units...),
	}
}

// from is the rest of a script, as deltas.
func (s *script) from(at int64) (deltas []string) {
	end := int64(0)
	for _, d := range s.deltas {
		end += plane.Units(d)
		if end > at {
			deltas = append(deltas, s.text(max(at, end-plane.Units(d)), end))
		}
	}
	return deltas
}

// starts reports whether a delta starts at an offset.
func (s *script) starts(at int64) bool {
	rest := s.from(at)
	return at == 0 || len(rest) == 0 || slices.Contains(s.deltas, rest[0])
}
