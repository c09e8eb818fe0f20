package plane

import "time"

// Cancelled returns a channel that is closed once the stream was asked to stop.
// It stays so.
func (s *Stream) Cancelled() <-chan struct{} { return s.cancelled }

// IsCancelled reports whether the stream was asked to stop.
func (s *Stream) IsCancelled() bool {
	select {
	case <-s.cancelled:
		return true
	default:
		return false
	}
}

// Cancel asks the stream to stop: its producer is told, and has the policy's
// CancelGrace to close it; it ends cancelled. Cancel writes nothing itself: the
// row's flag is the store's. A stream that has ended is none to stop.
func (s *Stream) Cancel() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel()
}

// cancel is Cancel with s.mu held.
func (s *Stream) cancel() {
	if s.over != nil || s.IsCancelled() {
		return
	}
	close(s.cancelled)
	if grace := s.cfg.Policy.CancelGrace; grace > 0 {
		s.grace = time.AfterFunc(grace, s.sealCancelled)
	}
}

// sealCancelled ends a stream whose producer did not.
func (s *Stream) sealCancelled() {
	s.mu.Lock()
	defer s.unlock()
	if s.ending == nil && s.over == nil && s.move == nil {
		s.beginSeal(Ending{Status: StatusComplete})
	}
}
