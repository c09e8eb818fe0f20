package plane

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// MaxOffset is the largest offset that every peer can hold exactly: JavaScript's
// Number.MAX_SAFE_INTEGER.
const MaxOffset = 1<<53 - 1

// ParseFrame reads a frame that another process wrote as JSON. It keeps nothing
// of data.
//
// What is no JSON object, or has no type, is a BrokenFrame. Whatever else is
// wrong stays in the frame, for the reader's rules to decide upon: see [Conform]
// and [Accumulator]. A number is an offset where JavaScript would call it an
// integer (3.0 and 3e0 are), up to MaxOffset. A repeated key takes its last
// value, an unknown key is skipped, and half of a surrogate pair stays, as WTF-8.
//
// A frame of an unknown type has that Kind and nothing else. It breaks a
// subscription unless it says "optional":true, which is how a newer node sends
// what an older one may do without.
func ParseFrame(data []byte) (Frame, error) {
	var w written
	s := scanner{data: data}
	if !s.object(w.note) || s.peek() != 0 || s.at != len(data) {
		return Frame{}, fmt.Errorf("%w: no JSON object", BrokenFrame)
	}
	kind := w.text(w.typ)
	if w.bad {
		return Frame{}, fmt.Errorf("%w: no type", BrokenFrame)
	}
	return w.frame(kind), nil
}

// written is a frame's fields as they are written; nil where there is none.
type written struct {
	typ, streamID, from, seq, durableSeq, floorSeq []byte
	ended, words, status, failure, optional        []byte

	bad bool // a field that was asked for was missing, or not of its type
}

func (w *written) note(key, value []byte) {
	name := key[1 : len(key)-1]
	if plainRun(name) < len(name) {
		name, _ = UnescapeJSON(nil, key)
	}
	switch string(name) {
	case "type":
		w.typ = value
	case "streamId":
		w.streamID = value
	case "from":
		w.from = value
	case "seq":
		w.seq = value
	case "durableSeq":
		w.durableSeq = value
	case "floorSeq":
		w.floorSeq = value
	case "ended":
		w.ended = value
	case "text":
		w.words = value
	case "status":
		w.status = value
	case "error":
		w.failure = value
	case "optional":
		w.optional = value
	}
}

func (w *written) frame(kind string) Frame {
	f := Frame{Kind: Kind(kind)}
	switch f.Kind {
	case KindOpen:
		f.StreamID = w.text(w.streamID)
		f.From, f.Seq, f.DurableSeq = w.offset(w.from), w.offset(w.seq), w.offset(w.durableSeq)
		f.Ended = w.bool(w.ended)
	case KindChunk:
		f.From, f.Seq = w.offset(w.from), w.offset(w.seq)
		f.Text = w.text(w.words)
	case KindDurable:
		f.Seq = w.offset(w.seq)
	case KindEnd:
		f.Seq = w.offset(w.seq)
		f.Status = Status(w.text(w.status))
		if f.HasError = w.failure != nil; f.HasError {
			f.Error = w.text(w.failure)
		}
	case KindStale:
		f.FloorSeq, f.DurableSeq = w.offset(w.floorSeq), w.offset(w.durableSeq)
	case KindAbsent:
	default:
		f.optional = string(w.optional) == "true"
	}
	f.malformed = w.bad
	return f
}

// text returns a field that must be a string.
func (w *written) text(raw []byte) string {
	if len(raw) == 0 || raw[0] != '"' {
		w.bad = true
		return ""
	}
	if inside := raw[1 : len(raw)-1]; plainRun(inside) == len(inside) && utf8.Valid(inside) {
		return string(inside)
	}
	s, err := UnescapeJSON(make([]byte, 0, len(raw)), raw)
	w.bad = w.bad || err != nil
	return string(s)
}

// offset returns a field that must be an integer, at most MaxOffset. Whether it
// may be negative is not asked here.
func (w *written) offset(raw []byte) int64 {
	if len(raw) == 0 || raw[0] != '-' && !digit(raw[0]) {
		w.bad = true
		return 0
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		f, err := strconv.ParseFloat(string(raw), 64)
		if err != nil || f != math.Trunc(f) || math.Abs(f) > MaxOffset {
			w.bad = true
			return 0
		}
		n = int64(f)
	}
	if n > MaxOffset {
		w.bad = true
		return 0
	}
	return n
}

func (w *written) bool(raw []byte) bool {
	yes := string(raw) == "true"
	w.bad = w.bad || !yes && string(raw) != "false"
	return yes
}

var errNotString = errors.New("not a JSON string")

// UnescapeJSON appends the text of a JSON string literal, quotes and all, to dst
// as WTF-8: unlike encoding/json it keeps \ud83d, half of a surrogate pair, whose
// mate may be in another literal. Halves that follow each other become the
// character, and bytes that are not UTF-8 become U+FFFD. What is no literal by
// RFC 8259 is an error, with dst as it was.
func UnescapeJSON(dst, quoted []byte) ([]byte, error) {
	if len(quoted) < 2 || quoted[0] != '"' || quoted[len(quoted)-1] != '"' {
		return dst, errNotString
	}
	out := dst
	for s := quoted[1 : len(quoted)-1]; ; {
		n := plainRun(s)
		out = append(out, s[:n]...)
		if n == len(s) {
			break
		}
		r, size := unescapeOne(s[n:])
		if size == 0 {
			return dst, errNotString
		}
		out = AppendWTF8(out, r)
		s = s[n+size:]
	}
	if text := out[len(dst):]; !utf8.Valid(text) {
		whole := decodeHalves(encodeHalves(string(text)))
		out = append(out[:len(dst)], whole...)
	}
	return out, nil
}

// unescapeOne reads the escape that s begins with. Its size is 0 if there is
// none. A \u escape is its code unit, which may be half of a pair.
func unescapeOne(s []byte) (r rune, size int) {
	if len(s) < 2 || s[0] != '\\' {
		return 0, 0
	}
	switch c := s[1]; c {
	case '"', '\\', '/':
		return rune(c), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		return unescapeUnit(s)
	default:
		return 0, 0
	}
}

// unescapeUnit reads \uXXXX.
func unescapeUnit(s []byte) (r rune, size int) {
	if len(s) < 6 {
		return 0, 0
	}
	for _, c := range s[2:6] {
		switch {
		case digit(c):
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, 0
		}
		r = r<<4 | rune(c)
	}
	return r, 6
}
