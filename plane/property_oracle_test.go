package plane

import (
	"unicode/utf16"
	"unicode/utf8"
)

// The oracle of the text tests: slow, obvious, and without a line in common
// with what it judges. The names are exported for the tests outside the package.

// RawUnits returns bytes as the UTF-16 units that their sender counts: halves
// and NUL as they are, and one U+FFFD for what cannot be read.
func RawUnits(raw string) []uint16 {
	var units []uint16
	for raw != "" {
		r, size := utf8.DecodeRuneInString(raw)
		switch half := threeBytes(raw); {
		case r != utf8.RuneError || size == 3:
			units = utf16.AppendRune(units, r)
		case utf16.IsSurrogate(half):
			units, size = append(units, uint16(half)), 3
		default:
			for size < len(raw) && !utf8.FullRuneInString(raw[:size+1]) {
				size++ // one U+FFFD for as many bytes as could have begun a character
			}
			units = append(units, utf8.RuneError)
		}
		raw = raw[size:]
	}
	return units
}

// threeBytes reads a three-byte sequence without asking what may be in it.
func threeBytes(s string) rune {
	if len(s) < 3 || s[0]&0xF0 != 0xE0 || s[1]&0xC0 != 0x80 || s[2]&0xC0 != 0x80 {
		return -1
	}
	return rune(s[0]&0x0F)<<12 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F)
}

// Valid returns units as they must be seen: what is no text became U+FFFD.
func Valid(units []uint16) []uint16 {
	runes := utf16.Decode(units)
	for i, r := range runes {
		if r == 0 {
			runes[i] = utf8.RuneError
		}
	}
	return utf16.Encode(runes)
}

// Held returns how many bytes at the end of raw must wait for what comes next:
// the longest end that is a character, or half of one, without its last bytes.
func Held(raw string) int {
	for n := min(5, len(raw)); n > 0; n-- {
		end := raw[len(raw)-n:]
		if high := threeBytes(end); high >= 0xD800 && high < 0xDC00 {
			if n == 3 || n < 6 && beginsHalf(end[3:], 0xB0) {
				return n
			}
		}
		if !utf8.FullRuneInString(end) || beginsHalf(end, 0xA0) {
			return n
		}
	}
	return 0
}

// beginsHalf reports whether s is one or two bytes of a surrogate's three, whose
// second is lo or more.
func beginsHalf(s string, lo byte) bool {
	return s == "\xED" || len(s) == 2 && s[0] == 0xED && s[1] >= lo && s[1] <= 0xBF
}

// Encode returns units as WTF-8. Pairs become one character, or stay two halves.
func Encode(units []uint16, pairs bool) string {
	var out []byte
	for i := 0; i < len(units); i++ {
		r := rune(units[i])
		if pairs && i+1 < len(units) {
			if both := utf16.DecodeRune(r, rune(units[i+1])); both != utf8.RuneError {
				r = both
				i++
			}
		}
		if utf16.IsSurrogate(r) {
			out = append(out, 0xE0|byte(r>>12), 0x80|byte(r>>6&0x3F), 0x80|byte(r&0x3F))
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return string(out)
}

// UnitsOf returns valid text as UTF-16, the standard library's way.
func UnitsOf(s string) []uint16 { return utf16.Encode([]rune(s)) }
