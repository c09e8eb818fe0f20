package plane

import (
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// AppendJSON appends f as compact JSON: the fields of its kind in the order that
// the protocol fixes, byte for byte as JavaScript's JSON.stringify writes them.
// See [AppendJSONString] for its texts. It allocates only to grow dst.
func AppendJSON(dst []byte, f Frame) []byte {
	switch f.Kind {
	case KindOpen:
		dst = append(dst, `{"type":"open","streamId":`...)
		dst = AppendJSONString(dst, f.StreamID)
		dst = appendNumber(dst, `,"from":`, f.From)
		dst = appendNumber(dst, `,"seq":`, f.Seq)
		dst = appendNumber(dst, `,"durableSeq":`, f.DurableSeq)
		dst = append(dst, `,"ended":`...)
		dst = strconv.AppendBool(dst, f.Ended)
	case KindChunk:
		dst = appendNumber(dst, `{"type":"chunk","from":`, f.From)
		dst = appendNumber(dst, `,"seq":`, f.Seq)
		dst = append(dst, `,"text":`...)
		dst = AppendJSONString(dst, f.Text)
	case KindDurable:
		dst = appendNumber(dst, `{"type":"durable","seq":`, f.Seq)
	case KindEnd:
		dst = appendNumber(dst, `{"type":"end","seq":`, f.Seq)
		dst = append(dst, `,"status":`...)
		dst = AppendJSONString(dst, string(f.Status))
		if f.HasError {
			dst = append(dst, `,"error":`...)
			dst = AppendJSONString(dst, f.Error)
		}
	case KindStale:
		dst = appendNumber(dst, `{"type":"stale","floorSeq":`, f.FloorSeq)
		dst = appendNumber(dst, `,"durableSeq":`, f.DurableSeq)
	default: // absent, and what a newer node may send
		dst = append(dst, `{"type":`...)
		dst = AppendJSONString(dst, string(f.Kind))
	}
	return append(dst, '}')
}

func appendNumber(dst []byte, key string, n int64) []byte {
	return strconv.AppendInt(append(dst, key...), n, 10)
}

// AppendJSONString appends s as a JSON string literal, as JSON.stringify writes it:
// only quotes, backslashes and controls below U+0020 are escaped. s is UTF-8 or
// WTF-8: a lone surrogate becomes \udxxx, two that make a pair become the
// character, and any other invalid sequence becomes U+FFFD.
func AppendJSONString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	if utf8.ValidString(s) {
		dst = appendEscaped(dst, s)
	} else {
		dst = appendHalves(dst, decodeHalves(encodeHalves(s)))
	}
	return append(dst, '"')
}

// appendEscaped appends the inside of a JSON string for s, which is valid UTF-8.
func appendEscaped(dst []byte, s string) []byte {
	for {
		n := plainRun(s)
		dst = append(dst, s[:n]...)
		if n == len(s) {
			return dst
		}
		switch c := s[n]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xF])
		}
		s = s[n+1:]
	}
}

// appendHalves is appendEscaped for well-formed WTF-8.
func appendHalves(dst []byte, s string) []byte {
	for s != "" {
		if half, ok := surrogate(s); ok {
			dst = append(dst, '\\', 'u', 'd', hex[half>>8&0xF], hex[half>>4&0xF], hex[half&0xF])
			s = s[3:]
			continue
		}
		_, size := utf8.DecodeRuneInString(s)
		dst = appendEscaped(dst, s[:size])
		s = s[size:]
	}
	return dst
}

const hex = "0123456789abcdef"

// plainRun returns how many bytes at the start of s stand for themselves in a
// JSON string. It looks at eight of them at a time: the highest bit of a byte of
// escaped is set for the first that does not, and, by the borrow of the
// subtraction, perhaps for others behind it.
func plainRun[T string | []byte](s T) int {
	const (
		each = 0x0101010101010101
		high = each * 0x80
	)
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		quote := w ^ each*'"'
		slash := w ^ each*'\\'
		escaped := ((w-each*' ')&^w | (quote-each)&^quote | (slash-each)&^slash) & high
		if escaped != 0 {
			return i + bits.TrailingZeros64(escaped)/8
		}
	}
	for i < len(s) && s[i] >= ' ' && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}
