package plane

// Join is Live.Join of a stream on its owner. While it is handed over, who has more of
// it than is here was served by the node that has it by now, and is sent there: an open
// would take them back to text that they have.
func (s *Stream) Join(from int64) *Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.move != nil && from > s.text.end() {
		stale := s.stale()
		return &Cursor{s: &s.Live, first: &stale}
	}
	return s.join(from)
}
