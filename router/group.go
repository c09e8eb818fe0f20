package router

import (
	"context"
	"sync"
)

// group counts what a router runs: requests, readers' connections, samples and model calls.
// Once it is shut it takes no more; who waits for it is told when nothing runs.
type group struct {
	mu      sync.Mutex // guards below
	running int
	closed  bool
	idle    chan struct{} // closed when nothing runs; nil while nobody waits
}

// enter counts one in, unless the group is shut. It is to leave.
func (g *group) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running++
	return true
}

// also counts in what somebody who is counted goes on to start.
func (g *group) also() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running++
}

func (g *group) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running--; g.running == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

func (g *group) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// wait returns when nothing runs, or ctx is done.
func (g *group) wait(ctx context.Context) error {
	g.mu.Lock()
	if g.running == 0 {
		g.mu.Unlock()
		return nil
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	idle := g.idle
	g.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
