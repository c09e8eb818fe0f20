package plane

import (
	"math/bits"
	"unicode/utf8"
)

// Units returns the length of s in UTF-16 code units. s is valid UTF-8, or
// WTF-8 (UTF-8 in which a lone surrogate is its own three-byte sequence, one
// unit): see https://simonsapin.github.io/wtf-8/. Any other invalid sequence
// counts as the one unit of the U+FFFD that replaces it.
func Units(s string) int64 {
	if utf8.ValidString(s) {
		return validUnits(s)
	}
	var n int64
	for s != "" {
		size, units := 1, int64(1)
		if s[0] >= utf8.RuneSelf {
			size, units = step(s)
		}
		s, n = s[size:], n+units
	}
	return n
}

// validUnits is Units of valid UTF-8, eight bytes at a time. A character is one
// unit, the byte it begins with; one of four bytes is two.
func validUnits(s string) int64 {
	const lowBits = 0x0101010101010101
	n := len(s)
	for len(s) >= 8 {
		w := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		if w&(lowBits<<7) != 0 {
			follow := w >> 7 &^ (w >> 6) & lowBits                    // 10xxxxxx
			four := w >> 7 & (w >> 6) & (w >> 5) & (w >> 4) & lowBits // 1111xxxx
			n += bits.OnesCount64(four) - bits.OnesCount64(follow)
		}
		s = s[8:]
	}
	for i := range len(s) {
		switch {
		case s[i]&0xC0 == 0x80:
			n--
		case s[i] >= 0xF0:
			n++
		}
	}
	return int64(n)
}

// Skip returns s without its first n UTF-16 code units. Where n lies inside a
// pair the whole character stays.
func Skip(s string, n int64) string {
	for n > 0 && s != "" {
		size, units := 1, int64(1)
		if s[0] >= utf8.RuneSelf {
			size, units = step(s)
		}
		if units > n {
			break
		}
		s, n = s[size:], n-units
	}
	return s
}

// step returns the size in bytes and units of the first character of s, which
// is not ASCII.
func step(s string) (size int, units int64) {
	r, size := utf8.DecodeRuneInString(s)
	switch {
	case r == utf8.RuneError && size == 1:
		if _, ok := surrogate(s); ok {
			return 3, 1
		}
		return subpart(s), 1
	case r >= 0x10000:
		return size, 2
	default:
		return size, 1
	}
}

// surrogate reports whether s begins with a surrogate in its WTF-8 form
// (ED A0..BF 80..BF), and which.
func surrogate(s string) (rune, bool) {
	if len(s) < 3 || s[0] != 0xED || s[1] < 0xA0 || s[1] > 0xBF || s[2]&0xC0 != 0x80 {
		return 0, false
	}
	return rune(0xD000) | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F), true
}

// AppendWTF8 appends r to dst, a surrogate in its three-byte form. It is how a
// decoder hands half of a pair to [Stream.Push].
func AppendWTF8(dst []byte, r rune) []byte {
	if r >= 0xD800 && r <= 0xDFFF {
		return append(dst, 0xED, 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
	}
	return utf8.AppendRune(dst, r)
}
