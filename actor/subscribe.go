package actor

import (
	"context"
	"fmt"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

// Subscribe authorizes and then joins the stream, where it is hosted here or can be
// attached, or answers that it is absent: the same plane.ErrDenied for a stream
// that exists and one that doesn't. Who comes while the stream's open is being
// decided, or its attach, waits for that. A stream that is hosted here wins, also
// when it is opened meanwhile.
func (y *System) Subscribe(ctx context.Context, access Access) (*plane.Cursor, error) {
	allowed, err := y.cfg.Authorize(ctx, access)
	switch {
	case err != nil:
		return nil, fmt.Errorf("authorize reader: %w", err)
	case !allowed:
		return nil, plane.ErrDenied
	}
	if c := y.serve(access); c != nil {
		return c, nil
	}
	// An attach ends in time by itself; an open need not.
	limit := time.NewTimer(y.cfg.JoinWait)
	defer limit.Stop()
	for {
		if c, err := y.place(ctx, limit.C, access); c != nil || err != nil {
			return c, err
		}
	}
}

// serve returns a cursor if there is nothing to wait for.
func (y *System) serve(access Access) *plane.Cursor {
	y.mu.Lock()
	defer y.mu.Unlock()
	switch a := y.active[access.StreamID]; {
	case a != nil && a.stream != nil:
		return join(a.stream, access)
	case a == nil && (access.Local || !y.relays()):
		return plane.Absent()
	}
	return nil
}

// place waits for the first thing that may serve the reader: for an open no longer
// than limit. It returns nothing if that does not serve it, and there is another to
// look for.
func (y *System) place(ctx context.Context, limit <-chan time.Time, access Access) (*plane.Cursor, error) {
	y.mu.Lock()
	a := y.active[access.StreamID]
	if a != nil {
		y.mu.Unlock()
		select {
		case <-a.decided:
		case <-limit:
			return plane.Absent(), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		switch {
		case a.stream != nil:
			return join(a.stream, access), nil
		case access.Local || !y.relays():
			return plane.Absent(), nil
		default: // another's, perhaps
			return nil, nil
		}
	}
	var l *link
	if !access.Local {
		l = y.link(access)
	}
	if l == nil {
		y.mu.Unlock()
		return plane.Absent(), nil
	}
	l.waiting++
	moot := l.moot
	y.mu.Unlock()
	select {
	case <-l.ready:
		return l.take(ctx, limit, access), nil
	case <-moot:
		l.leave()
		return nil, nil
	case <-ctx.Done():
		l.leave()
		return nil, ctx.Err()
	}
}

// Rejoin is Subscribe for a reader that was authorized before, reads the durable
// plane for now, and asks now and then whether it can be served live again. It
// never waits: where it has no cursor, later, if it is not nil, is closed when
// there may be one. It is cheap; a relay is not asked each time, but ever more
// seldom while it cannot attach the stream.
func (y *System) Rejoin(access Access) (c *plane.Cursor, later <-chan struct{}) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if a := y.active[access.StreamID]; a != nil {
		switch {
		case a.stream == nil:
			return nil, a.decided
		case a.stream.State().Over || a.stream.Epoch() < access.Epoch:
			return nil, nil
		}
		return join(a.stream, access), nil
	}
	if y.links[access.StreamID] == nil && y.resting(access.StreamID) {
		return nil, nil
	}
	l := y.link(access)
	switch {
	case l == nil:
		return nil, nil
	case !isClosed(l.ready):
		return nil, l.ready
	case l.mirror == nil:
		return nil, nil
	case l.mirror.Lost(): // the link ends in a moment, and there may be another
		return nil, l.ctx.Done()
	}
	if more := l.behind(access); more != nil {
		return nil, more
	}
	return l.join(access), nil
}

// join is a reader's joining of a stream that is hosted here. Who has seen a later
// epoch knows better: the stream is another node's by now, and is told so soon.
func join(s *plane.Stream, access Access) *plane.Cursor {
	if access.Epoch > s.Epoch() {
		return plane.Absent()
	}
	return s.Join(s.Rewind(access.From, access.Epoch)) // what it has beyond is an earlier epoch's
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
