package plane

import (
	"slices"
	"sort"
	"unicode/utf8"
	"unsafe"
)

// markEvery is how far apart, in bytes, the known offsets of non-ASCII text
// lie. Finding an offset scans at most that much.
const markEvery = 1024

// text is a growing response in one piece of memory, addressable by UTF-16
// offset in O(log n). Bytes once written never change, so that a slice of it
// can be read without the lock that guards the text itself; growing or trimming
// moves to other memory and leaves old slices whole.
type text struct {
	base  int64  // offset at which buf begins; text below was trimmed
	buf   []byte // valid UTF-8
	units int64  // units of buf
	ascii int    // bytes at the start of buf that are all ASCII: offset is index
	marks []mark // from ascii on, ascending
}

// mark says that the character at byte at of buf begins unit units into it.
type mark struct {
	at   int
	unit int64
}

// end is the offset at which the text ends.
func (t *text) end() int64 { return t.base + t.units }

// append adds s, which is valid UTF-8 and has the given length in units.
func (t *text) append(s string, units int64) {
	if t.ascii == len(t.buf) && units == int64(len(s)) { // ASCII so far, and s too
		t.buf = append(t.buf, s...)
		t.ascii += len(s)
		t.units += units
		return
	}
	for len(s) > 0 {
		n := t.untilMark(s)
		if n == 0 {
			t.marks = append(t.marks, mark{len(t.buf), t.units})
			continue
		}
		t.buf = append(t.buf, s[:n]...)
		t.units += validUnits(s[:n])
		s = s[n:]
	}
}

// untilMark returns how many bytes of s may be added before a mark is due: 0 if
// one is due now. It never cuts a character.
func (t *text) untilMark(s string) int {
	last := t.ascii
	if k := len(t.marks); k > 0 {
		last = t.marks[k-1].at
	}
	n := last + markEvery - len(t.buf)
	if n <= 0 {
		return 0
	}
	if n >= len(s) {
		return len(s)
	}
	for n < len(s) && !utf8.RuneStart(s[n]) {
		n++
	}
	return n
}

// locate returns the index in buf of the character at offset off, and the
// offset at which it begins: off itself, or one less where off lies between the
// halves of a pair. off is within the text.
func (t *text) locate(off int64) (at int, start int64) {
	unit := off - t.base
	if unit <= int64(t.ascii) {
		return int(unit), off
	}
	m := mark{t.ascii, int64(t.ascii)}
	if i := sort.Search(len(t.marks), func(i int) bool { return t.marks[i].unit > unit }); i > 0 {
		m = t.marks[i-1]
	}
	at, n := m.at, m.unit
	for n < unit {
		if t.buf[at] < utf8.RuneSelf {
			at++
			n++
			continue
		}
		r, size := utf8.DecodeRune(t.buf[at:])
		if r >= 0x10000 {
			if n+1 == unit {
				break
			}
			n++
		}
		n++
		at += size
	}
	return at, t.base + n
}

// slice returns the text from one offset to another, both on characters'
// borders, without copying.
func (t *text) slice(from, to int64) string {
	i, _ := t.locate(from)
	j := len(t.buf)
	if to < t.end() {
		j, _ = t.locate(to)
	}
	return view(t.buf[i:j])
}

// floor returns off, or one less where off lies inside a pair.
func (t *text) floor(off int64) int64 {
	_, start := t.locate(off)
	return start
}

// trim gives up memory below offset below, in steps that keep its cost in
// proportion to what was appended.
func (t *text) trim(below int64) {
	at, start := t.locate(below)
	if at < len(t.buf)/2 || at < markEvery {
		return
	}
	rest := view(t.buf[at:])
	kept := text{base: start, buf: slices.Grow([]byte(nil), len(rest))}
	kept.append(rest, validUnits(rest))
	*t = kept
}

// view is b as a string without a copy: b's bytes never change again.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
