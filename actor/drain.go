package actor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"rillkeep.dev/rillkeep/plane"
)

// Drain shuts the system and seals every live stream interrupted, with all that was
// produced, and what was handed over and nobody has taken. It reports the streams
// whose end did not reach the store, and those that ctx left no time for. What other
// nodes host is read on, until Close.
func (y *System) Drain(ctx context.Context) error {
	undecided := y.Shut(ctx)
	streams := y.Streams()
	_ = each(streams, func(s *plane.Stream) error { // one that takes longer goes on, and others begin
		turn, cancel := context.WithTimeout(ctx, drainTurn)
		defer cancel()
		_, err := s.Interrupt(turn)
		return err
	})
	sealed := each(streams, func(s *plane.Stream) error {
		if _, err := s.Interrupt(ctx); err != nil && !errors.Is(err, plane.ErrMoved) {
			return fmt.Errorf("drain %q: %w", s.ID(), err)
		}
		return nil
	})
	y.mu.Lock()
	given := slices.Collect(maps.Keys(y.given))
	y.mu.Unlock()
	return errors.Join(undecided, sealed, each(given, func(id string) error {
		if _, err := y.TakeBack(ctx, id); err != nil {
			return fmt.Errorf("drain %w", err)
		}
		return nil
	}))
}

// Close ends all activations and attaches without a write: readers are told absent.
// It returns when no store call runs any longer, nor anything of the relay, or ctx
// is done.
func (y *System) Close(ctx context.Context) error {
	undecided := y.Shut(ctx)
	detached := y.detach(ctx)
	err := errors.Join(undecided, detached, each(y.Streams(), func(s *plane.Stream) error { return s.Abandon(ctx) }))
	y.mu.Lock()
	defer y.mu.Unlock()
	for id, a := range y.active {
		switch {
		case a.stream == nil: // its open outlasts ctx, and gives it back
			continue
		case !a.ended:
			y.live--
			y.watch.remove(a)
		}
		y.remove(a, id)
		a.stream.Retire()
	}
	return err
}

// Shut refuses new opens and adoptions, and ends those being decided. It returns
// when they are, which is soon, or ctx is done. It is the first half of a Drain:
// between the two, streams can be handed over.
func (y *System) Shut(ctx context.Context) error {
	y.mu.Lock()
	y.drain()
	y.mu.Unlock()
	decided := make(chan struct{})
	go func() { y.opening.Wait(); close(decided) }()
	select {
	case <-decided:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for opens: %w", ctx.Err())
	}
}

const (
	// atOnce is how many streams a drain or a close has in hand.
	atOnce = 64

	// drainTurn is how long a drain has a stream in hand whose row others have
	// locked, while streams wait whose row is free.
	drainTurn = time.Second
)

// each calls do for all, and returns what went wrong.
func each[T any](all []T, do func(T) error) error {
	errs := make([]error, len(all))
	var calls errgroup.Group
	calls.SetLimit(atOnce)
	for i, one := range all {
		calls.Go(func() error {
			errs[i] = do(one)
			return nil
		})
	}
	_ = calls.Wait()
	return errors.Join(errs...)
}
