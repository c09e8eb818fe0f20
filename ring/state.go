package ring

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// announceWithin bounds how long memberlist takes to get a change out.
const announceWithin = 2 * time.Second

// SetState moves this node on to a later state and tells the others. It returns
// once the change is on its way; should ctx end before, the change takes place
// nonetheless. Active fails with [ErrNameTaken] while another living process has
// the node's name.
func (r *Ring) SetState(ctx context.Context, s State) error {
	if s < Joining || s > Draining {
		return fmt.Errorf("set state: no state %d", s)
	}
	if s == Active {
		if err := r.claim(ctx); err != nil {
			return fmt.Errorf("set state: %w", err)
		}
	}
	var backwards error
	err := r.announce(ctx, func(m *metadata) {
		if s < m.State {
			backwards = fmt.Errorf("set state: %v after %v", s, m.State)
			return
		}
		m.State = s
	})
	if backwards != nil {
		return backwards
	}
	if err != nil {
		return fmt.Errorf("set state: %w", err)
	}
	return nil
}

// announce changes what this node says of itself, and tells the others.
func (r *Ring) announce(ctx context.Context, change func(*metadata)) error {
	var meta metadata
	select {
	case meta = <-r.announced:
	case <-r.life.Done():
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	change(&meta)
	data := meta.encode()
	r.said.meta.Store(&data)
	done := make(chan struct{})
	if !r.start(func() {
		defer close(done)
		// It fails only by taking too long. Then what gossip did not carry is carried
		// by the next exchange of everything.
		if err := r.list.UpdateNode(announceWithin); err != nil {
			r.cfg.Log.Debug("ring: a change is slow to go out", "error", err)
		}
		r.announced <- meta
	}) {
		r.announced <- meta
		return ErrClosed
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Leave takes this node out of the cluster in good order and closes the ring: it
// says that it is draining, if it didn't, then that it leaves, answers probes for
// LeaveLinger so that nobody takes it for dead before that is known, and ends. When
// ctx ends it returns, and the ring closes behind it: Close waits for that. After
// Close, or a second time, it does nothing.
func (r *Ring) Leave(ctx context.Context) error {
	err := r.SetState(ctx, Draining)
	if errors.Is(err, ErrClosed) {
		return nil
	}
	left := make(chan struct{})
	if !r.start(func() {
		defer close(left)
		r.depart()
	}) {
		return r.Close()
	}
	select {
	case <-left:
		r.linger(ctx)
	case <-ctx.Done():
	}
	closed := make(chan error, 1)
	go func() { closed <- r.Close() }() // whoever closes the ring, as all must, waits for the same
	select {
	case e := <-closed:
		err = errors.Join(err, e)
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		err = errors.Join(err, context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("leave ring: %w", err)
	}
	return nil
}

// linger answers probes for a while.
func (r *Ring) linger(ctx context.Context) {
	timer := time.NewTimer(r.cfg.LeaveLinger)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.life.Done():
	case <-ctx.Done():
	}
}

// depart tells the others that this node leaves. memberlist panics if it is asked
// to after its end.
func (r *Ring) depart() {
	r.leaving <- struct{}{}
	defer func() { <-r.leaving }()
	select {
	case <-r.life.Done():
		return
	default:
	}
	if err := r.list.Leave(announceWithin); err != nil {
		r.cfg.Log.Debug("ring: the leave is slow to go out", "error", err)
	}
}
