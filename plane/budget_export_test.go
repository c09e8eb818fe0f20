package plane

// KeepingBudget returns a budget under which a stream keeps so many durable
// units, and not 8 Ki.
func KeepingBudget(limit, keep int64) *Budget {
	b := NewBudget(limit)
	b.keep = keep
	return b
}

// Weight returns the memory of the stream's text.
func (s *Stream) Weight() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.size()
}
