package ring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// announceWithin bounds the wait for a change to have been told often enough; it
// has been told once after GossipInterval.
const announceWithin = time.Second

// SetState moves this node on to a later state, or from Waiting back to Active, and
// tells the others. It returns
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
	if err := r.announce(ctx, s); err != nil {
		return fmt.Errorf("set state: %w", err)
	}
	return nil
}

// replace adds to the incarnations that this process replaces; the latest count.
func (r *Ring) replace(incarnations []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, incarnation := range incarnations {
		if !slices.Contains(r.meta.Replaced, incarnation) {
			r.meta.Replaced = append(r.meta.Replaced, incarnation)
		}
	}
	r.meta.Replaced = r.meta.Replaced[max(0, len(r.meta.Replaced)-maxReplaced):]
}

// move moves this node on in what it says of itself.
func (r *Ring) move(s State) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s < r.meta.State && (s != Active || r.meta.State != Waiting) {
		return fmt.Errorf("%v after %v", s, r.meta.State)
	}
	r.meta.State = s
	data := r.meta.encode()
	r.said.meta.Store(&data)
	return nil
}

// announce moves this node on and tells the others, one announcement at a time.
func (r *Ring) announce(ctx context.Context, s State) error {
	select {
	case r.announcing <- struct{}{}:
	case <-r.life.Done():
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := r.move(s); err != nil {
		<-r.announcing
		return err
	}
	done := make(chan struct{})
	if !r.start(func() {
		defer close(done)
		defer func() { <-r.announcing }()
		// It fails only by taking too long. Then what gossip did not carry is carried
		// by the next exchange of everything.
		if err := r.list.UpdateNode(announceWithin); err != nil {
			r.cfg.Log.Debug("ring: a change is slow to go out", "error", err)
		}
	}) {
		<-r.announcing
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
