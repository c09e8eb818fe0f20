package actor_test

import (
	"strings"
	"unicode/utf16"

	"rillkeep.dev/rillkeep/plane"
)

// checkContracts holds what a script brought about to the contracts, whatever
// was recorded of it: splice, prefix and honesty, and one terminal frame.
func (s *script) checkContracts() {
	s.t.Helper()
	for op, st := range s.steps {
		for id, row := range st.Store {
			if s.hosts(id) && !strings.HasPrefix(s.pushed[id], row.Durable) {
				s.t.Errorf("P: op %d: stored %q is no prefix of %q", op, row.Durable, s.pushed[id])
			}
		}
	}
	seen := s.seen()
	for _, o := range s.vector.Ops {
		if sub, ok := seen[o.As]; ok && o.Op == "subscribe" {
			s.checkReader(o.As, o.Stream, sub)
		}
	}
}

// checkReader checks one subscription against the text that was pushed.
func (s *script) checkReader(name, id string, sub subscription) {
	s.t.Helper()
	text := utf16.Encode([]rune(s.pushed[id]))
	at, durable, ended := int64(-1), int64(0), false
	for i, f := range sub.Frames {
		if ended {
			s.t.Errorf("%s got %+v after a terminal frame", name, f)
		}
		if i == 0 && f.Type != "open" && f.Type != "stale" && f.Type != "absent" {
			s.t.Errorf("%s got %+v first", name, f)
		}
		switch f.Type {
		case "open":
			at, durable = f.From, f.DurableSeq
		case "chunk":
			spans := f.From == at && f.Seq-f.From == plane.Units(string(f.Text))
			if spans && !s.hosts(id) { // nobody knows its text
				at = f.Seq
				continue
			}
			if !spans || f.Seq > int64(len(text)) || string(f.Text) != string(utf16.Decode(text[f.From:f.Seq])) {
				s.t.Errorf("S: %s at %d of %q got %+v", name, at, s.pushed[id], f)
				return
			}
			at = f.Seq
		case "durable":
			if f.Seq < durable || f.Seq > at {
				s.t.Errorf("H: %s at %d was told %d durable after %d", name, at, f.Seq, durable)
			}
			durable = f.Seq
		case "end":
			ended = true
			s.checkEnd(name, id, f, at)
		default:
			ended = true
		}
	}
}

// hosts reports whether a stream was opened by the script.
func (s *script) hosts(id string) bool {
	for _, name := range s.streams {
		if name == id {
			return true
		}
	}
	return false
}

// checkEnd checks that an end frame says no more than is so: the row is sealed
// as it says, or it says that the stream was interrupted and no more is durable
// than is. (A seal whose answer and reading back were both lost is of this
// kind.)
func (s *script) checkEnd(name, id string, f frame, at int64) {
	s.t.Helper()
	row, ok := s.store.Row(id)
	sealed := string(row.Status) == f.Status && row.Seq == f.Seq
	if ok && !sealed && (f.Status != "interrupted" || f.Seq > row.Seq) {
		s.t.Errorf("H: %s was told %+v, the row is %s at %d", name, f, row.Status, row.Seq)
	}
	if f.Seq > at && at >= 0 {
		s.t.Errorf("S: %s ended at %d, below the %d that are durable", name, at, f.Seq)
	}
}
