package rows

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

var errClosed = errors.New("database is closed")

// Calls are the calls under way of a store, so that its closing can wait for
// them. The zero Calls is ready for use.
type Calls struct {
	mu    sync.Mutex // guards below
	count int
	idle  chan struct{} // made by the first Close; closed when no call is under way
	done  chan struct{} // made with it; closed when all is shut
	err   error         // what shutting answered; read after done
}

// Do runs a call, unless the store is closed.
func (c *Calls) Do(call func() error) error {
	c.mu.Lock()
	if c.idle != nil {
		c.mu.Unlock()
		return errClosed
	}
	c.count++
	c.mu.Unlock()
	defer c.leave()
	return call()
}

func (c *Calls) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count--; c.count == 0 && c.idle != nil {
		close(c.idle)
	}
}

// Close lets no more calls begin, waits for those under way and then runs shut,
// once, however often it is called. Each Close answers what shut did; or, if its
// ctx ends before, that: what is left to do is done when the last call ends.
func (c *Calls) Close(ctx context.Context, shut func() error) error {
	done := c.begin(shut)
	select {
	case <-done:
		return c.err
	default:
	}
	select {
	case <-done:
		return c.err
	case <-ctx.Done():
		return fmt.Errorf("close database: %w", ctx.Err())
	}
}

func (c *Calls) begin(shut func() error) (done <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle != nil {
		return c.done
	}
	c.idle, c.done = make(chan struct{}), make(chan struct{})
	if c.count == 0 {
		close(c.idle)
	}
	go func() {
		defer close(c.done)
		<-c.idle
		c.err = shut()
	}()
	return c.done
}
