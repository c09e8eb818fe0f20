package main

import (
	"strings"

	"rillkeep.dev/rillkeep/plane"
)

// seen is what was printed of a stream and is not known to be durable: when the
// stream's node dies that may come once more, the same again if its producer is. What
// was printed can't be taken back, so that the same is not printed twice. The zero
// value has seen nothing.
type seen struct {
	chunks []plane.Frame // without gaps
	safe   int64         // the text up to here does not come again
	due    string        // what was printed from where the stream is now
}

// durable says that the text up to seq is committed.
func (s *seen) durable(seq int64) {
	s.safe = max(s.safe, seq)
	n := 0
	for n < len(s.chunks) && s.chunks[n].Seq <= s.safe {
		n++
	}
	clear(s.chunks[:n])
	s.chunks = s.chunks[n:]
}

// again takes the stream back to an offset, and reports whether what was printed from
// there on is known.
func (s *seen) again(from int64) bool {
	s.due = ""
	if len(s.chunks) == 0 || from < s.chunks[0].From {
		s.chunks = nil
		return false
	}
	var due strings.Builder
	for _, f := range s.chunks {
		if f.Seq > from {
			due.WriteString(plane.Skip(f.Text, max(0, from-f.From)))
		}
	}
	s.due = due.String()
	return true
}

// fresh returns what of the next chunk was not printed yet. same is false of a chunk in
// which the stream parts from what was.
func (s *seen) fresh(f plane.Frame) (text string, same bool) {
	switch {
	case strings.HasPrefix(s.due, f.Text):
		s.due = s.due[len(f.Text):]
		return "", true
	case !strings.HasPrefix(f.Text, s.due):
		s.part(f.From)
		s.keep(f)
		return f.Text, false
	}
	text = f.Text[len(s.due):]
	s.due = ""
	f.From = f.Seq - plane.Units(text)
	f.Text = text
	s.keep(f)
	return text, true
}

// whole reports whether all that was printed has come again; what has not is no longer
// the stream's.
func (s *seen) whole() bool { return s.due == "" }

// part forgets what was printed from an offset on.
func (s *seen) part(from int64) {
	s.due = ""
	for n := len(s.chunks); n > 0 && s.chunks[n-1].Seq > from; n-- {
		f := &s.chunks[n-1]
		if f.From < from {
			f.Text = f.Text[:len(f.Text)-len(plane.Skip(f.Text, from-f.From))]
			f.Seq = from
			return
		}
		s.chunks = s.chunks[:n-1]
	}
}

func (s *seen) keep(f plane.Frame) {
	if f.Seq > s.safe {
		s.chunks = append(s.chunks, f)
	}
}
