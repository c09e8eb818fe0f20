package plane

import (
	"strings"
	"unicode/utf8"
)

const replacement = "\uFFFD"

// intake makes text valid at the producer's door, before any plane sees it, so
// that the planes cannot differ. Halves of a surrogate pair (in WTF-8) that
// arrive one after the other become the character; so do the pieces of a UTF-8
// sequence that was cut between two deltas. What never finds its other half,
// any other invalid sequence, and NUL, which Postgres text refuses, become
// U+FFFD, which is one unit as each of them was: the producer's count holds.
type intake struct {
	held     string // what may still be completed: at most a high half and two bytes
	replaced int64  // how many characters became U+FFFD so far
}

// units is the length of what is held in UTF-16 code units: received, but not
// yet produced. A cut UTF-8 sequence is no unit yet.
func (in *intake) units() int64 {
	if _, ok := surrogate(in.held); ok {
		return 1
	}
	return 0
}

// accept takes the next delta and returns the valid text that can be produced
// now, which is the delta itself in the usual case.
func (in *intake) accept(delta string) string {
	if in.held == "" && strings.IndexByte(delta, 0) < 0 && utf8.ValidString(delta) {
		return delta
	}
	return in.repair(in.held+delta, false)
}

// flush returns what is left when nothing more will come.
func (in *intake) flush() string {
	if in.held == "" {
		return ""
	}
	return in.repair(in.held, true)
}

// repair returns s made valid. Unless last is set, an unfinished end is held.
func (in *intake) repair(s string, last bool) string {
	in.held = ""
	out := make([]byte, 0, len(s)+len(replacement))
	for i := 0; i < len(s); {
		rest := s[i:]
		if !last && unfinished(rest) {
			in.held = strings.Clone(rest)
			break
		}
		size, ok := whole(rest)
		switch {
		case ok:
			out = append(out, rest[:size]...)
		case size == 6:
			high, _ := surrogate(rest)
			low, _ := surrogate(rest[3:])
			out = utf8.AppendRune(out, 0x10000+(high-0xD800)<<10+(low-0xDC00))
		default:
			out = append(out, replacement...)
			in.replaced++
		}
		i += size
	}
	return string(out)
}

// whole returns the size of what s begins with, and whether it is a valid
// character other than NUL. A pair of surrogates has size 6 and is not valid.
func whole(s string) (size int, ok bool) {
	if s[0] < utf8.RuneSelf {
		return 1, s[0] != 0
	}
	if r, size := utf8.DecodeRuneInString(s); r != utf8.RuneError || size > 1 {
		return size, true
	}
	if first, is := surrogate(s); is {
		if second, is := surrogate(s[3:]); is && first < 0xDC00 && second >= 0xDC00 {
			return 6, false
		}
		return 3, false
	}
	return subpart(s), false
}

// unfinished reports whether more bytes could still make s, all of it, one
// character.
func unfinished(s string) bool {
	if first, is := surrogate(s); is {
		return first < 0xDC00 && lowPrefix(s[3:])
	}
	if s[0] == 0xED && (len(s) == 1 || len(s) == 2 && s[1] >= 0xA0 && s[1] <= 0xBF) {
		return true
	}
	return s[0] >= utf8.RuneSelf && !utf8.FullRuneInString(s)
}

// cutBytes returns how many bytes at the end of s are a character, or half of
// one, that lacks its last bytes.
func cutBytes(s string) int {
	for n := 1; n <= min(3, len(s)); n++ {
		end := s[len(s)-n:]
		if _, half := surrogate(end); !half && unfinished(end) {
			return n
		}
	}
	return 0
}

// lowPrefix reports whether s can be the beginning of a low half, and is no
// whole one.
func lowPrefix(s string) bool {
	switch len(s) {
	case 0:
		return true
	case 1:
		return s[0] == 0xED
	case 2:
		return s[0] == 0xED && s[1] >= 0xB0 && s[1] <= 0xBF
	default:
		return false
	}
}

// subpart returns the length of the longest beginning of s that begins a valid
// UTF-8 sequence without completing it, or 1: what one U+FFFD stands for in the
// replacement that the Unicode standard recommends (3.9, maximal subparts) and
// the Encoding standard prescribes.
func subpart(s string) int {
	lo, hi, more := byte(0x80), byte(0xBF), 0
	switch b := s[0]; {
	case b >= 0xC2 && b <= 0xDF:
		more = 1
	case b == 0xE0:
		more, lo = 2, 0xA0
	case b == 0xED:
		more, hi = 2, 0x9F
	case b >= 0xE1 && b <= 0xEF:
		more = 2
	case b == 0xF0:
		more, lo = 3, 0x90
	case b == 0xF4:
		more, hi = 3, 0x8F
	case b >= 0xF1 && b <= 0xF3:
		more = 3
	}
	n := 1
	for n <= more && n < len(s) && s[n] >= lo && s[n] <= hi {
		n++
		lo, hi = 0x80, 0xBF
	}
	return n
}
