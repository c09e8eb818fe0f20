package plane

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"unsafe"
)

// repeatUnits is how much durable text, in UTF-16 code units, a stream keeps
// when memory is short, so that a producer may repeat what it sent last and a
// reader may be a little behind.
const repeatUnits = 8 << 10

// Budget bounds the memory that the texts of a node's streams take together (B).
// While it is exceeded, a stream gives up what is durable, all but its last 8 Ki
// units, when a checkpoint is done; a reader that is further behind gets stale.
// And a push waits as long as its stream has more than Policy.Units outstanding.
// What no stream can give up is so bounded, too: for each of them Policy.Units,
// one delta, and twice the 8 Ki units.
//
// A nil Budget is no bound. Its methods are safe for concurrent use.
type Budget struct {
	limit int64
	keep  int64        // durable units that a stream keeps in any case
	seed  maphash.Seed // of what is known of long deltas
	used  atomic.Int64

	mu   sync.Mutex    // guards below
	room chan struct{} // closed when the limit is kept again; nil while nobody waits
}

// NewBudget returns a budget of so many bytes.
func NewBudget(limit int64) *Budget {
	return &Budget{limit: limit, keep: repeatUnits, seed: maphash.MakeSeed()}
}

// Limit returns the budget's bytes.
func (b *Budget) Limit() int64 { return b.limit }

// Used returns how many bytes the texts take now: the memory set aside for them,
// of which an eighth or so waits for what is to come.
func (b *Budget) Used() int64 {
	if b == nil {
		return 0
	}
	return b.used.Load()
}

// Exceeded reports whether more is used than the limit.
func (b *Budget) Exceeded() bool { return b != nil && b.used.Load() > b.limit }

// add counts n bytes more, or less.
func (b *Budget) add(n int64) {
	if b == nil {
		return
	}
	now := b.used.Add(n)
	if before := now - n; now > b.limit || before <= b.limit {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.room != nil {
		close(b.room)
		b.room = nil
	}
}

// relief returns what is closed when the limit is kept again; nil if it is.
func (b *Budget) relief() <-chan struct{} {
	if !b.Exceeded() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.Exceeded() { // add closes under the lock what is there by then
		return nil
	}
	if b.room == nil {
		b.room = make(chan struct{})
	}
	return b.room
}

// size is the memory that the text takes, in bytes.
func (t *text) size() int64 {
	return int64(cap(t.buf)) + int64(cap(t.marks))*int64(unsafe.Sizeof(mark{}))
}

// weigh brings the budget up to date with the text, which may have moved. s.mu is
// held.
func (s *Stream) weigh() {
	size := s.text.size()
	if size == s.size {
		return
	}
	s.cfg.Budget.add(size - s.size)
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

// trimTo gives up the text below an offset, which is durable. s.mu is held.
func (s *Stream) trimTo(below int64) {
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
	s.trimTo(s.durable - s.cfg.Budget.keep)
}

// Retire says that the stream, which has ended, is not hosted any more. Those who
// have joined read on, unless the Budget is exceeded; when the last of them has
// left, the text is given up. It may be called twice.
func (s *Stream) Retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = true
	s.settleRetired()
}

// Evict is Retire of a stream whose memory is needed: the text is given up now,
// and who reads it gets stale.
func (s *Stream) Evict() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = true
	s.forget()
}

// settleRetired gives up the text of a retired stream that nobody reads, or whose
// memory is needed. s.mu is held.
func (s *Stream) settleRetired() {
	read := s.readers > 0 && s.end != nil && s.end.Kind == KindEnd
	if s.retired && (!read || s.cfg.Budget.Exceeded()) {
		s.forget()
	}
}

// forget gives up all text. s.mu is held, and nothing is written any more.
func (s *Stream) forget() {
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

// repeatOf returns what to know of a delta from an offset on.
func (b *Budget) repeatOf(from int64, delta string) repeat {
	if b == nil || int64(len(delta)) <= b.keep {
		return repeat{}
	}
	return repeat{from, max(1, maphash.String(b.seed, delta))}
}

// isRepeat reports whether delta is the last one again, as far as that is known.
// s.mu is held.
func (s *Stream) isRepeat(from int64, delta string) bool {
	return s.last.sum != 0 && s.last == s.cfg.Budget.repeatOf(from, delta)
}
