package actor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

// link is the one attach of a stream that is hosted elsewhere: all who read it here
// read its mirror.
type link struct {
	system      *System
	id          string
	from, epoch int64 // what it was attached for first

	ctx   context.Context
	end   context.CancelCauseFunc
	ready chan struct{} // closed when the mirror can be joined, or there is none
	idle  *time.Timer   // ends it when nobody reads

	// Guarded by system.mu.
	mirror  *plane.Mirror // nil until ready, and if the stream is absent
	begin   int64         // where the mirror began
	waiting int           // readers that wait for it to be ready
	moot    chan struct{} // closed when the stream is being opened here
	over    bool          // it feeds the mirror no more
	dropped bool          // it is not the stream's link any more
}

// Why a link ends before its stream does.
var (
	errDeserted = errors.New("nobody reads it")
	errHosted   = errors.New("stream is hosted here")
)

// reunion is how long a link that nobody waited for is kept for those who asked.
const reunion = time.Second

func (y *System) relays() bool { return y.cfg.Relay != nil && y.cfg.Relay.Attach != nil }

// link returns the stream's link, a new one if need be; nil if there can be none: a
// full node grows no further (B). y.mu is held.
func (y *System) link(access Access) *link {
	if l := y.links[access.StreamID]; l != nil {
		return l
	}
	switch {
	case !y.relays(), y.closing.Err() != nil, len(y.links) >= y.cfg.MaxMirrors:
		return nil
	case y.cfg.Plane.Budget.Exceeded():
		y.press()
		return nil
	}
	l := &link{
		system: y, id: access.StreamID, from: max(0, min(access.From, plane.MaxOffset)), epoch: access.Epoch,
		ready: make(chan struct{}), moot: make(chan struct{}),
	}
	l.ctx, l.end = context.WithCancelCause(y.closing)
	l.idle = time.AfterFunc(time.Hour, l.expire)
	l.idle.Stop()
	y.links[l.id] = l
	y.tasks.Go(l.run)
	return l
}

// behind returns what a reader waits for who has more of the text than the mirror:
// the source has yet to send it. Who it was attached for was limited by the source
// itself. y.mu is held, and the link is ready.
func (l *link) behind(access Access) <-chan struct{} {
	if l.mirror == nil || access.From <= l.from && access.Epoch == l.epoch || access.From > plane.MaxOffset {
		return nil
	}
	if epoch := l.mirror.Epoch(); access.Epoch != 0 && epoch != 0 && access.Epoch != epoch {
		return nil
	}
	return l.mirror.Behind(access.From)
}

// join is a reader's joining of the mirror. y.mu is held, and the link is ready.
func (l *link) join(access Access) *plane.Cursor {
	if l.mirror == nil {
		return plane.Absent()
	}
	from, epoch := access.From, l.mirror.Epoch()
	switch {
	case access.Epoch == 0 || epoch == 0 || access.Epoch == epoch:
	case access.Epoch > epoch: // the source is behind the times: nothing of it is spliced onto newer text
		return plane.Absent()
	case l.epoch != 0 && l.epoch <= access.Epoch: // the source went back for who is of an epoch as old
		from = min(from, l.begin)
	default:
		from = 0
	}
	return l.mirror.Join(from)
}

// take is the joining of a reader that waited until the link was ready. While the
// mirror is behind the reader it waits on, no longer than limit: then what the reader
// has is lost.
func (l *link) take(ctx context.Context, limit <-chan time.Time, access Access) *plane.Cursor {
	y := l.system
	y.mu.Lock()
	defer y.mu.Unlock()
	for waits := true; waits; {
		more := l.behind(access)
		if more == nil {
			break
		}
		y.mu.Unlock()
		select {
		case <-more:
		case <-limit:
			waits = false
		case <-ctx.Done():
			waits = false
		}
		y.mu.Lock()
	}
	c := l.join(access)
	l.left()
	return c
}

// leave is the leaving of a reader that waited.
func (l *link) leave() {
	l.system.mu.Lock()
	defer l.system.mu.Unlock()
	l.left()
}

// left takes note of a reader that waits no more. y.mu is held.
func (l *link) left() {
	if l.waiting--; l.waiting == 0 && (l.mirror == nil || l.mirror.Readers() == 0) {
		l.deserted()
	}
}

// deserted ends the link soon, unless somebody comes: who reloads a page. It may be
// called with any lock held.
func (l *link) deserted() { l.idle.Reset(max(0, l.system.cfg.AttachLinger)) }

func (l *link) expire() {
	l.system.mu.Lock()
	defer l.system.mu.Unlock()
	if l.waiting == 0 && (l.mirror == nil || l.mirror.Readers() == 0) {
		l.drop(errDeserted)
	}
}

// drop makes the link the stream's no more, and ends it. y.mu is held.
func (l *link) drop(why error) {
	if l.dropped {
		return
	}
	l.dropped = true
	delete(l.system.links, l.id)
	l.idle.Stop()
	l.end(why)
	l.retire()
}

// retire gives up the mirror's text when all have read it. y.mu is held.
func (l *link) retire() {
	if l.over && l.dropped && l.mirror != nil {
		l.mirror.Retire()
	}
}

// interrupt sends who waits for the link to wait for an open here. y.mu is held; l
// may be nil.
func (l *link) interrupt() {
	if l != nil {
		close(l.moot)
		l.moot = make(chan struct{})
	}
}

// hosted ends what is attached of a stream that is hosted here now: its readers get
// stale, and come back. y.mu is held.
func (y *System) hosted(id string) {
	if l := y.links[id]; l != nil {
		l.drop(errHosted)
	}
	y.rested(id)
}

// open lets readers in.
func (l *link) open(m *plane.Mirror) {
	l.system.mu.Lock()
	defer l.system.mu.Unlock()
	l.mirror, l.begin = m, m.Pos()
	if l.waiting == 0 {
		l.idle.Reset(max(reunion, l.system.cfg.AttachLinger))
	}
	close(l.ready)
}

// finish is the end of run. With a failure the stream is not attached again at once
// for those who only ask now and then.
func (l *link) finish(failed bool) {
	y := l.system
	y.mu.Lock()
	defer y.mu.Unlock()
	l.over = true
	if !isClosed(l.ready) {
		close(l.ready)
	}
	if failed && !l.dropped {
		y.rest(l.id)
	}
	if failed || l.ctx.Err() != nil || l.mirror == nil || !l.mirror.Sealed() {
		l.drop(nil)
	}
	l.end(nil)
	l.retire()
}

// detach ends all links and publishers, and returns when nothing of them runs, or
// ctx is done.
func (y *System) detach(ctx context.Context) error {
	y.mu.Lock()
	y.close()
	for _, l := range y.links {
		l.drop(nil)
	}
	for id := range y.rests {
		y.rested(id)
	}
	y.mu.Unlock()
	done := make(chan struct{})
	go func() { y.tasks.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the relay: %w", ctx.Err())
	}
}

// mirrors returns those that are attached now.
func (y *System) mirrors() []*plane.Mirror {
	y.mu.Lock()
	defer y.mu.Unlock()
	var all []*plane.Mirror
	for _, l := range y.links {
		if l.mirror != nil {
			all = append(all, l.mirror)
		}
	}
	return all
}
