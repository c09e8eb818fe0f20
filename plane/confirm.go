package plane

import (
	"context"
	"io"
)

// AwaitDurable waits until the store has confirmed more than above, and returns the
// stream as it is then. It answers io.EOF once the stream has ended, or is not
// hosted here any more, and was not confirmed that far; ctx bounds the wait. It is
// for who acknowledges: unlike a Cursor's, its wait is not disturbed by text.
func (s *Stream) AwaitDurable(ctx context.Context, above int64) (State, error) {
	for {
		s.mu.Lock()
		switch {
		case s.durable > above:
			defer s.mu.Unlock()
			return s.state(), nil
		case s.end != nil:
			s.mu.Unlock()
			return State{}, io.EOF
		case s.confirmed == nil:
			s.confirmed = make(chan struct{})
		}
		confirmed := s.confirmed
		s.mu.Unlock()
		select {
		case <-confirmed:
		case <-ctx.Done():
			return State{}, ctx.Err()
		}
	}
}

// confirm takes over that the store holds more, or as much as it says after all.
// s.mu is held.
func (s *Stream) confirm(durable int64) {
	s.durable = durable
	s.wakeConfirmed()
}

// wakeConfirmed has those who wait for the store look. s.mu is held.
func (s *Live) wakeConfirmed() {
	if s.confirmed != nil {
		close(s.confirmed)
		s.confirmed = nil
	}
}
