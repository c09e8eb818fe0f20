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
	firstMoved = 50 * time.Millisecond // the first pause, doubled
	maxMoved   = time.Second
)

// moving is the waiting for a stream that goes to another node.
type moving struct {
	since time.Time
	pause time.Duration
}

// wait pauses, and reports whether to try again: not when that took longer than
// limit, or ctx is done.
func (m *moving) wait(ctx context.Context, limit time.Duration) bool {
	if m.since.IsZero() {
		m.since, m.pause = time.Now(), firstMoved
	}
	if time.Since(m.since) > limit {
		return false
	}
	timer := time.NewTimer(m.pause/2 + rand.N(m.pause/2))
	defer timer.Stop()
	m.pause = min(2*m.pause, maxMoved)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// follow repeats a call while its stream goes to another node: it has done nothing
// until it finds the stream there.
func (c *Client) follow(ctx context.Context, call func() error) error {
	for w := (moving{}); ; {
		err := call()
		if !errors.Is(err, plane.ErrMoved) || !w.wait(ctx, c.cfg.Timeout) {
			return err
		}
	}
}
