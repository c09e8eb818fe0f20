package plane

import (
	"hash/maphash"
	"unsafe"
)

// size is the memory that the text takes, in bytes.
func (t *text) size() int64 {
	return int64(cap(t.buf)) + int64(cap(t.marks))*int64(unsafe.Sizeof(mark{}))
}

// weigh brings the budget up to date with the text, which may have moved. s.mu is
// held.
func (s *Live) weigh() {
	if s.text.size() != s.size { // as a rule it has not, and this is inlined
		s.moved()
	}
}

func (s *Live) moved() {
	size := s.text.size()
	s.budget.add(size - s.size)
	s.size = size
	s.recent = nil // its frames would keep the memory where the text was
}

// trim gives up text that need not be kept. s.mu is held.
func (s *Stream) trim() {
	if s.cfg.Retain != nil {
		s.trimTo(s.durable - *s.cfg.Retain)
	}
	if s.cfg.Budget.Exceeded() {
		s.trimTo(s.durable - s.cfg.Budget.keep)
	}
}

// trimTo gives up the text below an offset. s.mu is held.
func (s *Live) trimTo(below int64) {
	if below <= s.floor {
		return
	}
	s.floor = s.text.floor(below)
	s.text.trim(s.floor)
	s.weigh()
}

// Trim gives up, without a word to who reads, what a stream gives up while its
// Budget is exceeded. Without a Budget it does nothing.
func (s *Stream) Trim() {
	if s.cfg.Budget == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent = nil
	s.trimTo(s.durable - s.cfg.Budget.keep)
}

// Retire says that the stream, which has ended, is not hosted any more. Those who
// have joined read on, unless the Budget is exceeded; when the last of them has
// left, the text is given up. It may be called twice.
func (s *Live) Retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = true
	s.settleRetired()
}

// Evict is Retire of a stream whose memory is needed: the text is given up now,
// and who reads it gets stale.
func (s *Live) Evict() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = true
	s.forget()
}

// settleRetired gives up the text of a retired stream that nobody reads, or whose
// memory is needed. s.mu is held.
func (s *Live) settleRetired() {
	if !s.retired {
		return
	}
	read := s.readers > 0 && s.end != nil && (s.end.Kind == KindEnd || s.lasting)
	if !read || s.budget.Exceeded() {
		s.forget()
	}
}

// forget gives up all text. s.mu is held, and nothing is written any more.
func (s *Live) forget() {
	s.floor = s.text.end()
	s.text = text{base: s.floor}
	s.weigh()
}

// repeat is what is known of a delta that is too long for its text to be there
// in any case when it comes again.
type repeat struct {
	from int64
	sum  uint64 // 0: none
}

// remember takes note of a delta that was added and may be repeated. s.mu is not
// held.
func (s *Stream) remember(from int64, delta string) {
	b := s.cfg.Budget
	if b == nil || int64(len(delta)) <= b.keep {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = b.repeat(from, delta)
}

// isRepeat reports whether delta is the long one that was remembered last. s.mu
// is held.
func (s *Stream) isRepeat(from int64, delta string) bool {
	return s.last.sum != 0 && s.last.from == from && s.last == s.cfg.Budget.repeat(from, delta)
}

func (b *Budget) repeat(from int64, delta string) repeat {
	return repeat{from, max(1, maphash.String(b.seed, delta))}
}
