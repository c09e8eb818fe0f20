package plane

import "encoding/json"

// scanner reads JSON text strictly, once, without building anything.
type scanner struct {
	data []byte
	at   int
}

// peek returns the next byte that is not white space, or 0 at the end.
func (s *scanner) peek() byte {
	for ; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// skip moves past c if it comes next.
func (s *scanner) skip(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

// object calls field with each key and value of an object, both as they are
// written, and reports whether it is well-formed.
func (s *scanner) object(field func(key, value []byte)) bool {
	if !s.skip('{') {
		return false
	}
	if s.skip('}') {
		return true
	}
	for {
		if s.peek() != '"' {
			return false
		}
		key, ok := s.value()
		if !ok || !s.skip(':') {
			return false
		}
		value, ok := s.value()
		if !ok {
			return false
		}
		field(key, value)
		if !s.skip(',') {
			return s.skip('}')
		}
	}
}

// value returns the next value as it is written.
func (s *scanner) value() (raw []byte, ok bool) {
	c := s.peek()
	start := s.at
	switch {
	case c == '"':
		ok = s.text()
	case c == '-' || digit(c):
		ok = s.number()
	case c == '{' || c == '[':
		s.nested()
		ok = json.Valid(s.data[start:s.at])
	default:
		ok = s.word("true") || s.word("false") || s.word("null")
	}
	return s.data[start:s.at], ok
}

// text moves past a string.
func (s *scanner) text() bool {
	s.at++
	for {
		s.at += plainRun(s.data[s.at:])
		if s.at == len(s.data) {
			return false
		}
		switch s.data[s.at] {
		case '"':
			s.at++
			return true
		case '\\':
			_, n := unescapeOne(s.data[s.at:])
			if n == 0 {
				return false
			}
			s.at += n
		default:
			return false
		}
	}
}

// number moves past a number.
func (s *scanner) number() bool {
	s.byte("-")
	if !s.byte("0") && !s.digits() {
		return false
	}
	if s.byte(".") && !s.digits() {
		return false
	}
	if !s.byte("eE") {
		return true
	}
	s.byte("+-")
	return s.digits()
}

// digits moves past digits, of which there must be one.
func (s *scanner) digits() bool {
	start := s.at
	for s.at < len(s.data) && digit(s.data[s.at]) {
		s.at++
	}
	return s.at > start
}

// byte moves past one of those in set, if it comes at once.
func (s *scanner) byte(set string) bool {
	for i := range len(set) {
		if s.at < len(s.data) && s.data[s.at] == set[i] {
			s.at++
			return true
		}
	}
	return false
}

// word moves past w if it comes next.
func (s *scanner) word(w string) bool {
	if len(s.data)-s.at < len(w) || string(s.data[s.at:s.at+len(w)]) != w {
		return false
	}
	s.at += len(w)
	return true
}

// nested moves past an object or a list, minding its brackets and strings only.
func (s *scanner) nested() {
	for depth := 0; s.at < len(s.data); {
		switch s.data[s.at] {
		case '"':
			if !s.text() {
				return
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.at++
		if depth == 0 {
			return
		}
	}
}

func digit(c byte) bool { return '0' <= c && c <= '9' }
