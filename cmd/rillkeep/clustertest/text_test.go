package clustertest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"unicode/utf16"
)

// text is what a stream's producer has to say, in deltas of a few words.
type text struct {
	id    string
	units []uint16     // all of it
	ends  []int64      // of the deltas, in units
	sent  atomic.Int64 // up to here it may be known
}

func newText(id string, deltas int) *text {
	x := &text{id: id}
	for k := range deltas {
		delta := fmt.Sprintf("%s:%d wörds 😀 ", id, k)
		x.units = append(x.units, utf16.Encode([]rune(delta))...)
		x.ends = append(x.ends, int64(len(x.units)))
	}
	return x
}

// check compares a piece with what belongs there.
func (x *text) check(from int64, piece string) (end int64, err error) {
	units := utf16.Encode([]rune(piece))
	end = from + int64(len(units))
	if end > x.sent.Load() {
		return end, fmt.Errorf("%s: text up to %d, of which %d is said", x.id, end, x.sent.Load())
	}
	for i, u := range units {
		if at := from + int64(i); x.units[at] != u {
			return end, fmt.Errorf("%s: at %d is %q", x.id, at, strings.ToValidUTF8(piece, "?"))
		}
	}
	return end, nil
}

// slice is the text between two offsets.
func (x *text) slice(from, to int64) string { return string(utf16.Decode(x.units[from:to])) }
