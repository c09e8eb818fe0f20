package plane

import (
	"context"
	"sync/atomic"
)

// Clock is a coarse clock that many streams share, so that to take note of each
// push costs next to nothing. Who has it advances it; what a tick is, is theirs to
// say. A nil Clock stands still.
type Clock struct{ ticks atomic.Int64 }

// Now returns the current tick.
func (c *Clock) Now() int64 {
	if c == nil {
		return 0
	}
	return c.ticks.Load()
}

// Advance begins the next tick, and returns it.
func (c *Clock) Advance() int64 { return c.ticks.Add(1) }

// hear takes note of the producer. s.mu is held.
func (s *Stream) hear() { s.by.heard = s.cfg.Clock.Now() }

// Heard returns at which tick of Config.Clock the stream's producer was heard of
// last, by a push, a resume or a keepalive, be it the stream's opening: the current
// one while a producer is connected. live is false once the stream takes no more.
func (s *Stream) Heard() (tick int64, live bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by.holds > 0 {
		s.hear()
	}
	return s.by.heard, s.over == nil
}

// InterruptSilent is Interrupt, unless the stream's producer was heard of after a
// tick of Config.Clock, or is connected, or the stream takes no text for another
// reason. asked says that it was the producer's silence that ended it.
func (s *Stream) InterruptSilent(ctx context.Context, since int64) (asked bool, err error) {
	s.mu.Lock()
	if s.by.holds > 0 || s.by.heard > since || s.refusal() != nil {
		s.mu.Unlock()
		return false, nil
	}
	s.beginSeal(Ending{Status: StatusInterrupted})
	e := s.ending
	s.unlock()
	_, err = e.await(ctx)
	return true, err
}
