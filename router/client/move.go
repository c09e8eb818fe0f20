package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

const (
	moveTime   = time.Minute           // for which a pump waits for its stream to be adopted
	firstPause = 50 * time.Millisecond // the first pause, doubled
	maxPause   = time.Second
)

// backoff is the waiting for a stream that goes to another node.
type backoff struct{ pause time.Duration }

// next is wait, but for the first time: what is lost once need not wait.
func (b *backoff) next(ctx context.Context) bool {
	if b.pause == 0 {
		b.pause = firstPause
		return ctx.Err() == nil
	}
	return b.wait(ctx, nil)
}

// wait pauses, or until early, which may be nil. It reports whether to try again: not
// when ctx is done.
func (b *backoff) wait(ctx context.Context, early <-chan struct{}) bool {
	b.pause = min(max(2*b.pause, firstPause), maxPause)
	timer := time.NewTimer(b.pause/2 + rand.N(b.pause/2))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-early:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// follow repeats a call while its stream goes to another node: it has done nothing
// until it finds the stream there.
func (c *Client) follow(ctx context.Context, call func() error) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	for w := (backoff{}); ; {
		err := call()
		if !errors.Is(err, plane.ErrMoved) || !w.wait(ctx, nil) {
			return err
		}
	}
}
