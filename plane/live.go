package plane

import "sync"

// Live is the read side of a stream: the text that is in memory, and those who
// read it. A [Stream] has one on its owner, a [Mirror] on any other node. Its
// methods are safe for concurrent use.
type Live struct {
	id     string
	epoch  int64 // a mirror's may rise
	budget *Budget
	maxLag int64 // as in Policy

	mu      sync.Mutex // guards below, and more of what has the Live
	text    text
	size    int64   // of text, as the budget counts it
	floor   int64   // text below was trimmed
	known   int64   // how much is produced, where that is more than the text; of a mirror
	sealed  bool    // its source said that it has ended, as it says itself later; of a mirror
	durable int64   // what the store confirmed
	mark    int64   // newest durable that readers are told; a seal's own is in its end
	recent  *recent // nil while nobody reads
	readers int
	retired bool // text goes when nobody reads it
	lasting bool // the text is read before end, whatever that is

	changed bool          // something readers wait for happened under this lock
	tip     chan struct{} // closed at the next change; nil while nobody waits

	confirmed chan struct{} // closed when the store holds more, or at the end; nil while nobody waits

	end      *Frame // the terminal frame; set once
	deserted func() // called, with mu held, when the last reader has left; may be nil
}

// ID returns the name that the application gave the stream.
func (s *Live) ID() string { return s.id }

// Epoch returns the stream's epoch, from 1; of a mirror 0 if its source said none.
func (s *Live) Epoch() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch
}

// unlock releases s.mu and then, if something changed, wakes the readers that
// wait. Waking thousands takes a while; the lock is free meanwhile.
func (s *Live) unlock() {
	var tip chan struct{}
	if s.changed {
		tip, s.tip, s.changed = s.tip, nil, false
	}
	s.mu.Unlock()
	if tip != nil {
		close(tip)
	}
}
