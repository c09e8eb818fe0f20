package plane

import (
	"strconv"
	"strings"
	"unicode"
)

// AppendResume appends f's resume point, the id of its event: where a reader
// that has f joins again. That is N, the offset, in the stream's first epoch, and
// N@E in epoch E. A durable has none, since it lies behind the text that was
// sent; nor have stale and absent. Nothing is appended then.
func AppendResume(dst []byte, f Frame) []byte {
	at := f.Seq
	switch f.Kind {
	case KindOpen:
		at = f.From
	case KindChunk, KindEnd:
	default:
		return dst
	}
	if f.malformed || at < 0 {
		return dst
	}
	return appendPoint(dst, at, f.Epoch)
}

func appendPoint(dst []byte, at, epoch int64) []byte {
	dst = strconv.AppendInt(dst, at, 10)
	if epoch > 1 {
		dst = strconv.AppendInt(append(dst, '@'), epoch, 10)
	}
	return dst
}

// ParseResume reads a resume point as it comes back from a reader: white space, a
// plus sign perhaps, decimal digits, and perhaps @ with an epoch; what follows is
// ignored. Without digits it is none. An offset past MaxOffset is MaxOffset. The
// epoch is 1 where none is named: at worst, text is then sent again.
func ParseResume(s string) (offset, epoch int64, ok bool) {
	s = strings.TrimLeftFunc(s, unicode.IsSpace)
	offset, rest, ok := leadingNumber(strings.TrimPrefix(s, "+"))
	if !ok {
		return 0, 0, false
	}
	if rest, found := strings.CutPrefix(rest, "@"); found {
		epoch, _, _ = leadingNumber(rest)
	}
	return offset, max(epoch, 1), true
}

// leadingNumber reads the digits that s begins with, as a number of at most
// MaxOffset.
func leadingNumber(s string) (n int64, rest string, ok bool) {
	i := 0
	for ; i < len(s) && digit(s[i]); i++ {
		n = min(n*10+int64(s[i]-'0'), MaxOffset)
	}
	return n, s[i:], i > 0
}
