package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	readSize = 8 << 10   // room made for a read
	keepSize = 256 << 10 // a larger buffer is given back once it is empty
	minRead  = 512       // with less room than this a read is not worth its call
)

// ErrTooLong says that a line, or the data of one event, is over the limit.
var ErrTooLong = errors.New("event stream: line is too long")

func tooLong(limit int) error {
	return fmt.Errorf("%w: more than %d bytes", ErrTooLong, limit)
}

var bom = []byte("\uFEFF")

// lines cuts a stream into lines that end in LF, CR or CR LF. It gives a line
// out as soon as its end is there: after a CR it does not wait to see whether
// an LF follows. However small the reads are, each byte is looked at a bounded
// number of times.
type lines struct {
	r     io.Reader
	limit int   // bytes in one line
	err   error // what the last read said

	buf      []byte // buf[pos:end] is not given out yet
	pos, end int
	lf, cr   int  // no LF in buf[pos:lf], no CR in buf[pos:cr]; cr <= lf
	started  bool // past the place where a byte order mark can be
	skipLF   bool // the last line ended in CR: an LF right here belongs to it
}

// next returns the next line without its end. The bytes are valid until the
// next call. With an error it returns what is left, which has no end.
func (l *lines) next() ([]byte, error) {
	for {
		if l.begin() {
			if at := l.scan(); at < l.end {
				line := l.buf[l.pos:at]
				l.skipLF = l.buf[at] == '\r'
				l.pos = at + 1
				if len(line) > l.limit {
					return nil, tooLong(l.limit)
				}
				return line, nil
			}
			if l.end-l.pos > l.limit {
				return nil, tooLong(l.limit)
			}
		}
		if l.err != nil {
			rest := l.buf[l.pos:l.end]
			l.pos = l.end
			return rest, l.err
		}
		l.fill()
	}
}

// begin drops what may precede a line: one byte order mark at the start of the
// stream, and the LF of a CR LF. It reports false if it needs more to tell.
func (l *lines) begin() bool {
	rest := l.buf[l.pos:l.end]
	if !l.started {
		if len(rest) < len(bom) && bytes.HasPrefix(bom, rest) && l.err == nil {
			return false
		}
		l.started = true
		if bytes.HasPrefix(rest, bom) {
			l.pos += len(bom)
		}
		return true
	}
	if l.skipLF {
		if len(rest) == 0 {
			return false
		}
		l.skipLF = false
		if rest[0] == '\n' {
			l.pos++
		}
	}
	return true
}

// scan returns the index of the next line end, or l.end if there is none yet.
// The marks stay where they are until pos passes them, so that a byte is not
// searched twice for the same thing.
func (l *lines) scan() int {
	l.lf = seek(l.buf[:l.end], max(l.lf, l.pos), '\n')
	l.cr = seek(l.buf[:l.lf], max(l.cr, l.pos), '\r')
	return l.cr
}

// seek returns the index of the first c in b[from:], or len(b).
func seek(b []byte, from int, c byte) int {
	if i := bytes.IndexByte(b[from:], c); i >= 0 {
		return from + i
	}
	return len(b)
}

// fill reads once more, or notes why it cannot.
func (l *lines) fill() {
	if len(l.buf)-l.end < minRead || l.pos == l.end {
		l.makeRoom()
	}
	for range 100 {
		n, err := l.r.Read(l.buf[l.end:])
		l.end += n
		l.err = err
		if n > 0 || err != nil {
			return
		}
	}
	l.err = io.ErrNoProgress
}

// makeRoom moves what is not given out yet to the front, into a larger buffer
// if it fills more than half of this one.
func (l *lines) makeRoom() {
	live := l.end - l.pos
	size := len(l.buf)
	if live == 0 && size > keepSize {
		size = 0
	}
	to := l.buf
	if want := min(2*(live+readSize), l.limit+2*readSize); want > size {
		to = make([]byte, want)
	}
	copy(to, l.buf[l.pos:l.end])
	l.lf, l.cr = max(l.lf-l.pos, 0), max(l.cr-l.pos, 0)
	l.buf, l.pos, l.end = to, 0, live
}
