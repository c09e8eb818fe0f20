package plane

import (
	"slices"
	"strconv"
	"strings"
)

// MaxOrigins is how many of its newest epochs a stream is known to have begun at
// which offset. A reader of an earlier one goes back to the beginning.
const MaxOrigins = 16

// Origins are the offsets, in UTF-16 code units, at which a stream's newest epochs
// began by a takeover, the current one's last. The first epoch has none: it began
// with nothing. They fall only where a store went back (ErrWentBack): durable text
// does not otherwise (P).
type Origins []int64

// Begin returns the origins of a stream whose next epoch begins at an offset.
func (o Origins) Begin(at int64) Origins {
	if n := len(o) - MaxOrigins; n >= 0 { // more, by somebody's hand
		o = o[n+1:]
	}
	return append(o[:len(o):len(o)], at)
}

// Rewind returns how much of the text up to from is still the stream's, for a reader
// that has it of an epoch, when the stream's is current: all of it, but for what a
// later epoch began below. An epoch of 0, not known, is taken for the current one.
func (o Origins) Rewind(from, epoch, current int64) int64 {
	if epoch == 0 || epoch >= current {
		return from
	}
	next := int64(len(o)) - (current - epoch) // where the epoch after the reader's began
	if next < 0 {
		return 0
	}
	return min(from, slices.Min(o[next:]))
}

// MakeToken returns the owner token of a node, a node/incarnation, in an epoch:
// node/incarnation/epoch, and with origins /offset,offset,… after it.
func MakeToken(node string, epoch int64, origins Origins) string {
	b := make([]byte, 0, len(node)+24)
	b = append(append(b, node...), '/')
	b = strconv.AppendInt(b, epoch, 10)
	for i, at := range origins {
		b = append(b, "/,"[min(i, 1)])
		b = strconv.AppendInt(b, at, 10)
	}
	return string(b)
}

// Origins returns those that the row's token, or the mark in its place, has after
// its epoch; none where it has what is no offset.
func (r Row) Origins() Origins {
	parts := strings.SplitN(r.Token, "/", 4)
	if len(parts) < 4 {
		return nil
	}
	var o Origins
	for at := range strings.SplitSeq(parts[3], ",") {
		n, err := strconv.ParseInt(at, 10, 64)
		if err != nil || n < 0 {
			return nil
		}
		o = append(o, n)
	}
	return o
}

// NodeOf returns the node/incarnation that an owner token names; "" if it is none,
// as the mark of a row that was disowned.
func NodeOf(token string) string {
	name, rest, _ := strings.Cut(token, "/")
	incarnation, _, ok := strings.Cut(rest, "/")
	if !ok || name == "" || incarnation == "" {
		return ""
	}
	return name + "/" + incarnation
}

// Session returns the ProducerEpoch's that the mark of a row has, which was
// disowned; 0 if it has none, or the row is somebody's.
func (r Row) Session() int64 {
	if !r.Disowned() {
		return 0
	}
	mark, _, _ := strings.Cut(r.Token[1:], "/")
	_, session, _ := strings.Cut(mark, ".")
	n, err := strconv.ParseUint(session, 10, sessionBits)
	if err != nil {
		return 0
	}
	return int64(n)
}
