package peer

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// stamp makes a request good once. A sender numbers what it sends to one
// receiver, so that the receiver need not keep what it has seen, but only a
// bitmap of the latest numbers: bounded, however many requests come.
type stamp struct {
	at      int64 // milliseconds, by the receiver's clock as far as the sender knows it
	session session
	number  uint64
}

// session names a sender's numbering.
type session [16]byte

func newSession() (s session) {
	rand.Read(s[:]) // never fails
	return s
}

func (s stamp) String() string {
	b := make([]byte, 0, 80)
	b = strconv.AppendInt(b, s.at, 10)
	b = append(b, '.')
	b = hex.AppendEncode(b, s.session[:])
	b = append(b, '.')
	return string(strconv.AppendUint(b, s.number, 10))
}

func parseStamp(v string) (s stamp, ok bool) {
	at, rest, ok1 := strings.Cut(v, ".")
	id, number, ok2 := strings.Cut(rest, ".")
	if !ok1 || !ok2 || len(id) != 2*len(s.session) {
		return stamp{}, false
	}
	var err1, err2, err3 error
	s.at, err1 = strconv.ParseInt(at, 10, 64)
	_, err2 = hex.Decode(s.session[:], []byte(id))
	s.number, err3 = strconv.ParseUint(number, 10, 64)
	return s, err1 == nil && err2 == nil && err3 == nil
}

// stamper makes the stamps for one receiver. It is safe for concurrent use.
type stamper struct {
	clock   func() int64
	session session
	number  atomic.Uint64
	offset  atomic.Int64 // milliseconds that the receiver's clock is ahead of ours
}

func (s *stamper) next() stamp {
	return stamp{at: s.clock() + s.offset.Load(), session: s.session, number: s.number.Add(1)}
}

// learn takes the receiver's word for what the time is.
func (s *stamper) learn(clock int64) { s.offset.Store(clock - s.clock()) }

// monotonic gives a clock in milliseconds that starts at the wall clock's time
// and from then on goes at its own pace: to set the machine's clock, back or
// forth, changes nothing, so that no old stamp ever becomes new again.
func monotonic() func() int64 {
	start := time.Now()
	return func() int64 { return start.UnixMilli() + time.Since(start).Milliseconds() }
}
