package dev

import (
	"bytes"
	"io"
	"sync"
)

// maxLine is how much of a line is waited for before it is passed on.
const maxLine = 64 << 10

// lines is a writer that passes on whole lines, each with its newline. It is for
// one goroutine, or a log.Logger.
type lines struct {
	each func(line []byte)
	rest []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		n := bytes.IndexByte(l.rest, '\n') + 1
		switch {
		case n > 0:
			l.each(l.rest[:n])
		case len(l.rest) > maxLine:
			n = len(l.rest)
			l.each(append(l.rest, '\n'))
		default:
			return len(p), nil
		}
		l.rest = append(l.rest[:0], l.rest[n:]...)
	}
}

// shared is a writer for several goroutines.
type shared struct {
	mu sync.Mutex // guards below
	to io.Writer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Write(p)
}

// prefixed returns what writes a line after a name, in one write.
func prefixed(to io.Writer, name string) func(line []byte) {
	return func(line []byte) {
		// Where the log can't be written there is nobody to be told.
		_, _ = to.Write(append([]byte(name+" | "), line...))
	}
}
