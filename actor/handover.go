package actor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

// HandOver gives up a stream that is live here, with all that was produced, for
// another node to adopt; see plane.Stream.HandOver. When it returns nil, and before
// the stream's readers and producer are sent elsewhere, the stream is not here any
// more. With an error it goes on, or has ended, or it is not known yet whether the
// store gave it up: then it takes no more text, and goes when that is known.
// plane.ErrNotFound says that no such stream is here.
//
// Who hands over says then how that went: Taken or, if nobody takes the stream,
// TakeBack.
//
// Who comes while the stream is being opened or adopted waits for that.
func (y *System) HandOver(ctx context.Context, id string) error {
	y.mu.Lock()
	a := y.active[id]
	y.mu.Unlock()
	if a == nil {
		return fmt.Errorf("hand over %q: %w", id, plane.ErrNotFound)
	}
	select {
	case <-a.decided:
	case <-ctx.Done():
		return fmt.Errorf("hand over %q: %w", id, ctx.Err())
	}
	if a.stream == nil {
		return fmt.Errorf("hand over %q: %w", id, plane.ErrNotFound)
	}
	if _, err := a.stream.HandOver(ctx); err != nil {
		return fmt.Errorf("%q: %w", id, err)
	}
	return nil
}

// moved removes a stream that is another node's to adopt: the next who asks for it
// here is told so.
func (y *System) moved(s *plane.Stream, m plane.Moved) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if m.Late {
		y.keepAway(s.ID())
	}
	if m.Row.Disowned() {
		y.given[s.ID()] = m.Row
	}
	a := y.active[s.ID()]
	if a == nil || a.ended || a.stream != s && a.stream != nil {
		return
	}
	a.ended = true
	y.live--
	y.watch.remove(a)
	y.remove(a, s.ID())
	s.Retire()
}

// Taken says that another node has adopted a stream that was handed over.
func (y *System) Taken(id string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	delete(y.given, id)
}

// TakeBack ends a stream that was handed over and that nobody adopts, interrupted,
// with all of its text; see plane.TakeBack. taken says that another node has it all
// the same, or had. With an error that is not known yet, and it can be asked for
// again; a Drain does.
func (y *System) TakeBack(ctx context.Context, id string) (taken bool, err error) {
	y.mu.Lock()
	left, ok := y.given[id]
	y.mu.Unlock()
	if !ok {
		return true, nil
	}
	row, err := plane.TakeBack(ctx, y.cfg.Plane, id, left)
	if err != nil && !errors.Is(err, plane.ErrNotFound) {
		return false, fmt.Errorf("%q: %w", id, err)
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.given[id] == left {
		delete(y.given, id)
	}
	return row.Token != left.Token, nil
}

// keepAway keeps a stream from being adopted here for a while: to give it up took
// a call without an answer, whose statement may still be on its way. It would hit
// the row when that is this node's again. y.mu is held.
func (y *System) keepAway(id string) {
	if before := y.left[id]; before != nil {
		before.Stop()
	}
	var over *time.Timer
	over = time.AfterFunc(lateness, func() {
		y.mu.Lock()
		defer y.mu.Unlock()
		if y.left[id] == over {
			delete(y.left, id)
		}
	})
	y.left[id] = over
}

// Adopt makes a stream live here that another node has handed over; see
// plane.Adopt, whose refusals it answers, and those of Open: a name that is held
// here, a node that drains, or is full. plane.ErrMoved says that it left this node
// a moment ago, in such a way that it must not come back yet.
//
// Its calls to the store have deadlines, and ctx does not end it: to read the text can
// take longer than who asked for that waits, and nobody else would be asked.
func (y *System) Adopt(ctx context.Context, id string) (*plane.Stream, error) {
	w := y.revival(id, unanswered{adopted: true})
	w.adopts = true
	w.open = func(ctx context.Context) (*plane.Stream, error) {
		return plane.Adopt(ctx, y.cfg.Plane, id, y.cfg.Node)
	}
	return y.activate(context.WithoutCancel(ctx), id, w)
}

// TakeOver makes a stream live here whose owner died; see plane.TakeOver, whose
// refusals it answers, and those of Open. claim.Node is the system's own.
func (y *System) TakeOver(ctx context.Context, claim plane.Claim) (*plane.Stream, error) {
	claim.Node = y.cfg.Node
	w := y.revival(claim.ID, unanswered{adopted: true, tookOver: true})
	w.open = func(ctx context.Context) (*plane.Stream, error) {
		return plane.TakeOver(ctx, y.cfg.Plane, claim)
	}
	return y.activate(ctx, claim.ID, w)
}

// revival is how a stream that has text becomes live here; u says how, of one that
// does not.
func (y *System) revival(id string, u unanswered) way {
	u.claim = plane.Claim{ID: id, Node: y.cfg.Node}
	return way{
		undo: func(ctx context.Context, s *plane.Stream) error {
			return errors.Join(s.Abandon(ctx), y.putBack(ctx, id))
		},
		lost: func(err error) error {
			switch {
			case errors.Is(err, plane.ErrTextLost): // nobody can make it live: it ends as far as its text goes
				u = unanswered{claim: u.claim}
			case y.Draining():
				return y.putBack(context.Background(), id)
			}
			y.giveBack(u)
			return nil
		},
	}
}

// putBack gives up what was adopted, once: this node has no time for more. What it
// leaves is an orphan when the node is gone.
func (y *System) putBack(ctx context.Context, id string) error {
	_, err := plane.PutBack(ctx, y.cfg.Plane, id, y.cfg.Node)
	return err
}

// Await is Stream for who may wait a moment, no longer than Config.JoinWait, while it
// is being decided whether the stream is opened or adopted here.
func (y *System) Await(ctx context.Context, id string) (*plane.Stream, bool) {
	y.mu.Lock()
	a := y.active[id]
	y.mu.Unlock()
	if a == nil {
		return nil, false
	}
	select {
	case <-a.decided: // as a rule
		return y.Stream(id)
	default:
	}
	limit := time.NewTimer(y.cfg.JoinWait)
	defer limit.Stop()
	select {
	case <-a.decided:
	case <-limit.C:
	case <-ctx.Done():
	}
	return y.Stream(id)
}
