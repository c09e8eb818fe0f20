package plane

import (
	"context"
	"errors"
	"iter"
	"math"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// Push appends delta and hands it to all readers before it returns. delta is
// UTF-8, or WTF-8 where it holds half of a surrogate pair; a half is held until
// its mate comes. Push never waits for a reader; it waits, until ctx is done,
// while more than the policy's MaxOutstanding units wait for the store.
//
// It answers ErrClosed once a seal was asked for, ErrFenced once another owns
// the stream, and ErrTooLong, taking nothing, if the stream would grow past the
// policy's MaxUnits.
func (s *Stream) Push(ctx context.Context, delta string) error {
	if delta == "" {
		return nil
	}
	if err := s.admit(ctx); err != nil {
		return err
	}
	_, err := s.push(delta)
	return err
}

// PushAt is Push for a producer that may repeat itself: from is where delta
// starts, in UTF-16 code units. Text that is there already is absorbed, and only
// the rest is pushed. It answers an OffsetError of kind ErrGap if from lies past
// the end, and of kind ErrConflict if what is there differs from delta, or lies
// below what is kept to compare; and ErrCut if delta ends inside the UTF-8 of a
// character: part of one has no length by which a repeat could be known.
func (s *Stream) PushAt(ctx context.Context, from int64, delta string) error {
	if cutBytes(delta) > 0 {
		return ErrCut
	}
	_, err := s.pushAt(ctx, from, delta)
	return err
}

// pushAt is PushAt, and says where what follows delta starts.
func (s *Stream) pushAt(ctx context.Context, from int64, delta string) (next int64, err error) {
	if err := s.admit(ctx); err != nil {
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
	return s.push(rest)
}

// admit returns nil, with s.mu held, when the stream has room for more. With an
// error s.mu is not held.
func (s *Stream) admit(ctx context.Context) error {
	for {
		s.mu.Lock()
		if s.over != nil {
			err := s.over
			s.mu.Unlock()
			return err
		}
		if s.outstanding() < s.cfg.Policy.MaxOutstanding {
			return nil
		}
		if s.room == nil {
			s.room = make(chan struct{})
		}
		room := s.room
		s.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
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
	s.text.append(text, Units(text))
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

// sameUnit reports whether a producer that repeats unit sent what is had: what
// became U+FFFD at the door was some unit that could not stay.
func sameUnit(had, unit uint16) bool {
	return had == unit || had == utf8.RuneError && (unit == 0 || unit >= 0xD800 && unit < 0xE000)
}

// encodeHalves returns WTF-8 as UTF-16 code units. Its length is Units(s).
func encodeHalves(s string) []uint16 {
	units, _ := splitUnits(s, math.MaxInt64)
	return units
}

// splitUnits returns the first n units of s, which is WTF-8, as UTF-16, and what
// follows. A pair that n divides leaves its low half to what follows.
func splitUnits(s string, n int64) (units []uint16, rest string) {
	units = make([]uint16, 0, min(n, int64(len(s))))
	for s != "" && int64(len(units)) < n {
		if half, ok := surrogate(s); ok {
			units, s = append(units, uint16(half)), s[3:]
			continue
		}
		r, size := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && size == 1 {
			size = subpart(s)
		}
		units, s = utf16.AppendRune(units, r), s[size:]
	}
	if int64(len(units)) > n {
		s = string(AppendWTF8(nil, rune(units[n]))) + s
		units = units[:n]
	}
	return units, s
}

// decodeHalves returns UTF-16 code units as WTF-8.
func decodeHalves(u []uint16) string {
	var out []byte
	for i := 0; i < len(u); i++ {
		r := rune(u[i])
		if i+1 < len(u) {
			if pair := utf16.DecodeRune(r, rune(u[i+1])); pair != utf8.RuneError {
				r = pair
				i++
			}
		}
		out = AppendWTF8(out, r)
	}
	return string(out)
}

// Pump pushes each delta of the source and returns nil at its end, or when the
// stream was asked to stop. The context that the source is given ends then, so
// that it need not come up with another delta to learn of it. An error of the
// source is returned as it is; nothing is sealed.
func (s *Stream) Pump(ctx context.Context, source func(context.Context) iter.Seq2[string, error]) error {
	return s.pump(ctx, source, s.Push)
}

// PumpAt is Pump for a source that may repeat itself: its first delta starts at
// offset from, and each is pushed as PushAt does. A character whose bytes two
// deltas share is pushed whole, with the second: part of it has no length.
func (s *Stream) PumpAt(ctx context.Context, from int64, source func(context.Context) iter.Seq2[string, error]) error {
	var begun string
	push := func(ctx context.Context, delta string) error {
		delta = begun + delta
		whole := delta[:len(delta)-cutBytes(delta)]
		begun = strings.Clone(delta[len(whole):])
		var err error
		from, err = s.pushAt(ctx, from, whole) // not by its length: bytes held at the door have none yet
		return err
	}
	err := s.pump(ctx, source, push)
	if err == nil && begun != "" && !s.IsCancelled() {
		_, err = s.pushAt(ctx, from, begun)
	}
	return err
}

func (s *Stream) pump(
	ctx context.Context,
	source func(context.Context) iter.Seq2[string, error],
	push func(context.Context, string) error,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-s.cancelled:
			cancel(ErrCancelled)
		case <-s.shut:
			s.mu.Lock()
			defer s.mu.Unlock()
			cancel(s.over)
		case <-stop:
		}
	}()
	defer func() { close(stop); <-done }()

	for delta, err := range source(ctx) {
		if err == nil {
			err = push(ctx, delta)
		}
		if err != nil {
			return pumped(ctx, err)
		}
		if s.IsCancelled() {
			return nil
		}
	}
	return pumped(ctx, nil)
}

// pumped is how a pump went that ended with err: a source that ended with its
// context, in silence or not, ended for the context's reason.
func pumped(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case cause == ErrCancelled:
		return nil
	case cause != nil && (err == nil || errors.Is(err, context.Canceled)):
		return cause
	default:
		return err
	}
}

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
// row's flag is the store's.
func (s *Stream) Cancel() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel()
}

// cancel is Cancel with s.mu held.
func (s *Stream) cancel() {
	if s.IsCancelled() {
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
	if s.ending == nil && s.over == nil {
		s.beginSeal(Ending{Status: StatusComplete})
	}
}
