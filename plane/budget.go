package plane

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
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

// Limit returns the budget's bytes, 0 if there is no bound.
func (b *Budget) Limit() int64 {
	if b == nil {
		return 0
	}
	return b.limit
}

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
