package plane

import (
	"context"
	"errors"
	"iter"
	"strings"
)

// Pump pushes each delta of the source and returns nil at its end, or when the
// stream was asked to stop. The context that the source is given ends then, so
// that it need not come up with another delta to learn of it. An error of the
// source is returned as it is; nothing is sealed.
func (s *Stream) Pump(ctx context.Context, source func(context.Context) iter.Seq2[string, error]) error {
	return s.PumpAs(ctx, ProducerEpoch{}, -1, source)
}

// PumpAt is Pump for a source that may repeat itself: its first delta starts at
// offset from, and each is pushed as PushAt does. A character whose bytes two
// deltas share is pushed whole, with the second: part of it has no length.
func (s *Stream) PumpAt(ctx context.Context, from int64, source func(context.Context) iter.Seq2[string, error]) error {
	return s.pumpAt(ctx, ProducerEpoch{}, from, source)
}

// PumpAs is PumpAt by a producer, or, with a from below 0, Pump: it pushes as PushAs
// does, and stops with ErrSuperseded when another has resumed the stream. While it
// runs a producer is connected, as by Hold.
func (s *Stream) PumpAs(ctx context.Context, as ProducerEpoch, from int64, source func(context.Context) iter.Seq2[string, error]) error {
	if from < 0 {
		return s.pump(ctx, as, source, func(ctx context.Context, delta string) error { return s.PushAs(ctx, as, from, delta) })
	}
	return s.pumpAt(ctx, as, from, source)
}

func (s *Stream) pumpAt(ctx context.Context, as ProducerEpoch, from int64, source func(context.Context) iter.Seq2[string, error]) error {
	var begun string
	push := func(ctx context.Context, delta string) error {
		delta = begun + delta
		whole := delta[:len(delta)-cutBytes(delta)]
		begun = strings.Clone(delta[len(whole):])
		var err error
		from, err = s.pushAt(ctx, as, from, whole) // not by its length: bytes held at the door have none yet
		return err
	}
	err := s.pump(ctx, as, source, push)
	if err == nil && begun != "" && !s.IsCancelled() {
		_, err = s.pushAt(ctx, as, from, begun)
	}
	return err
}

func (s *Stream) pump(
	ctx context.Context,
	as ProducerEpoch,
	source func(context.Context) iter.Seq2[string, error],
	push func(context.Context, string) error,
) error {
	resumed, err := s.connect(as)
	if err != nil {
		return err
	}
	defer s.release()
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
		case <-resumed:
			cancel(ErrSuperseded)
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
