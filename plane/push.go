package plane

import "context"

// Push appends delta and hands it to all readers before it returns. delta is
// UTF-8, or WTF-8 where it holds half of a surrogate pair; a half is held until
// its mate comes. Push never waits for a reader; it waits, until ctx is done,
// while more than the policy's MaxOutstanding units wait for the store, or more
// than its Units while the Budget is exceeded.
//
// It answers ErrClosed once a seal was asked for, ErrFenced once another owns
// the stream, ErrMoved while it is handed over and after that, and ErrTooLong, taking nothing, if the stream would grow past the
// policy's MaxUnits.
func (s *Stream) Push(ctx context.Context, delta string) error {
	if delta == "" {
		return nil
	}
	return s.PushAs(ctx, ProducerEpoch{}, -1, delta)
}

// PushAt is Push for a producer that may repeat itself: from is where delta
// starts, in UTF-16 code units. Text that is there already is absorbed, and only
// the rest is pushed. It answers an OffsetError of kind ErrGap if from lies past
// the end, and of kind ErrConflict if what is there differs from delta, or lies
// below what is kept to compare (a repeat of the last delta is known as such in
// any case); and ErrCut if delta ends inside the UTF-8 of a character: part of
// one has no length by which a repeat could be known.
func (s *Stream) PushAt(ctx context.Context, from int64, delta string) error {
	return s.pushWhole(ctx, ProducerEpoch{}, from, delta)
}

// PushAs is PushAt by a producer, or, with a from below 0, Push. It is answered
// ErrSuperseded once another has resumed the stream, also while it waits, and
// ErrProducerEpoch if it is later than any producer that is known here.
func (s *Stream) PushAs(ctx context.Context, as ProducerEpoch, from int64, delta string) error {
	if from >= 0 {
		return s.pushWhole(ctx, as, from, delta)
	}
	if err := s.admit(ctx, as); err != nil {
		return err
	}
	_, err := s.push(delta)
	return err
}

// pushWhole is pushAt for a delta that may be repeated only if it ends with a character.
func (s *Stream) pushWhole(ctx context.Context, as ProducerEpoch, from int64, delta string) error {
	if cutBytes(delta) > 0 {
		return ErrCut
	}
	_, err := s.pushAt(ctx, as, from, delta)
	return err
}

// pushAt is PushAs of what has an offset, and says where what follows delta starts.
func (s *Stream) pushAt(ctx context.Context, as ProducerEpoch, from int64, delta string) (next int64, err error) {
	if err := s.admit(ctx, as); err != nil {
		return from, err
	}
	rest, err := s.unseen(from, delta)
	if err != nil {
		s.mu.Unlock()
		return from, err
	}
	if rest == "" {
		s.mu.Unlock()
		return from + Units(delta), nil
	}
	if next, err = s.push(rest); err == nil {
		s.remember(from, delta)
	}
	return next, err
}

// admit returns nil, with s.mu held, when the stream has room for more. With an
// error s.mu is not held.
func (s *Stream) admit(ctx context.Context, as ProducerEpoch) error {
	for {
		s.mu.Lock()
		if err := s.refusalOf(as); err != nil {
			s.mu.Unlock()
			return err
		}
		var relief <-chan struct{}
		if waits := s.outstanding(); waits < s.cfg.Policy.MaxOutstanding {
			if waits > s.cfg.Policy.Units {
				relief = s.cfg.Budget.relief()
			}
			if relief == nil {
				s.hear()
				return nil
			}
		}
		if s.room == nil {
			s.room = make(chan struct{})
		}
		room := s.room
		s.by.holds++
		s.mu.Unlock()
		select {
		case <-room:
		case <-relief:
		case <-ctx.Done():
		}
		s.release()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// push appends delta and releases s.mu, which is held. It says where the next
// append starts.
func (s *Stream) push(delta string) (next int64, err error) {
	room := s.cfg.Policy.MaxUnits - s.text.end()
	if int64(len(s.in.held)+len(delta)) > room && Units(s.in.held+delta) > room {
		next = s.received()
		s.mu.Unlock()
		return next, ErrTooLong
	}
	before := s.in.replaced
	s.produce(s.in.accept(delta))
	replaced := s.in.replaced - before
	s.trigger()
	next = s.received()
	s.unlock()
	s.reportReplaced(replaced)
	if s.cfg.Hooks.Exceeded != nil && s.cfg.Budget.Exceeded() {
		s.guard("Exceeded", s.cfg.Hooks.Exceeded)
	}
	return next, nil
}

// reportReplaced tells the hook of n characters that became U+FFFD. s.mu is not
// held.
func (s *Stream) reportReplaced(n int64) {
	if n > 0 && s.cfg.Hooks.Replaced != nil {
		s.guard("Replaced", func() { s.cfg.Hooks.Replaced(s.id, n) })
	}
}

// produce adds valid text for all to see. s.mu is held.
func (s *Stream) produce(text string) {
	if text == "" {
		return
	}
	s.text.append(text, validUnits(text))
	s.weigh()
	s.changed = true
}

// unseen returns what of delta, which starts at from, is not in the text yet.
// s.mu is held.
func (s *Stream) unseen(from int64, delta string) (string, error) {
	next := s.received()
	switch {
	case from == next:
		return delta, nil
	case from > next:
		return "", &OffsetError{ErrGap, from, next}
	case from < s.floor && s.isRepeat(from, delta):
		return "", nil
	case from < s.floor:
		return "", &OffsetError{ErrConflict, from, next}
	}
	again, rest := splitUnits(delta, next-from)
	for i, unit := range s.units(from, int64(len(again))) {
		if !sameUnit(unit, again[i]) {
			return "", &OffsetError{ErrConflict, from, next}
		}
	}
	return rest, nil
}

// units returns n units of what was received, from offset from on, as UTF-16.
// s.mu is held.
func (s *Stream) units(from, n int64) []uint16 {
	start := min(from, s.text.end())
	whole := s.text.floor(start)
	had, _ := splitUnits(s.text.slice(whole, s.text.end()), start-whole+n)
	if had = had[start-whole:]; int64(len(had)) < n {
		half, _ := surrogate(s.in.held)
		had = append(had, uint16(half))
	}
	return had
}
