package plane

import (
	"math"
	"unicode/utf16"
	"unicode/utf8"
)

// sameUnit reports whether a producer that repeats unit sent what is had: what
// became U+FFFD at the door was some unit that could not stay.
func sameUnit(had, unit uint16) bool {
	return had == unit || had == utf8.RuneError && (unit == 0 || unit >= 0xD800 && unit < 0xE000)
}

// encodeHalves returns WTF-8 as UTF-16 code units. Its length is Units(s).
func encodeHalves(s string) []uint16 {
	units, _ := splitUnits(s, math.MaxInt64)
	return units
}

// splitUnits returns the first n units of s, which is WTF-8, as UTF-16, and what
// follows. A pair that n divides leaves its low half to what follows.
func splitUnits(s string, n int64) (units []uint16, rest string) {
	units = make([]uint16, 0, min(n, int64(len(s))))
	for s != "" && int64(len(units)) < n {
		if half, ok := surrogate(s); ok {
			units, s = append(units, uint16(half)), s[3:]
			continue
		}
		r, size := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && size == 1 {
			size = subpart(s)
		}
		units, s = utf16.AppendRune(units, r), s[size:]
	}
	if int64(len(units)) > n {
		s = string(AppendWTF8(nil, rune(units[n]))) + s
		units = units[:n]
	}
	return units, s
}

// decodeHalves returns UTF-16 code units as WTF-8.
func decodeHalves(u []uint16) string {
	var out []byte
	for i := 0; i < len(u); i++ {
		r := rune(u[i])
		if i+1 < len(u) {
			if pair := utf16.DecodeRune(r, rune(u[i+1])); pair != utf8.RuneError {
				r = pair
				i++
			}
		}
		out = AppendWTF8(out, r)
	}
	return string(out)
}
