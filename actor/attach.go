package actor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

// Pauses between attempts to attach again: none before the first, then from one to
// the other, doubled.
const (
	firstRetry = 50 * time.Millisecond
	maxRetry   = 500 * time.Millisecond
)

var (
	errNobody = errors.New("nobody hosts the stream")
	errZombie = errors.New("source is of an epoch that is over")
)

// upstream is a source, and what ends it.
type upstream struct {
	source Source
	epoch  int64
	ctx    context.Context
	cancel context.CancelCauseFunc
	limit  *time.Timer // ends it, unless it gives something in time
}

// run feeds the mirror from one source after the other.
func (l *link) run() { l.finish(l.follow()) }

// follow attaches the stream and feeds its mirror until its end, and reports
// whether that came too early.
func (l *link) follow() (failed bool) {
	y := l.system
	u, err := l.attach(time.Now().Add(y.cfg.AttachWindow), l.from, l.epoch)
	if err != nil {
		l.complain(PhaseAttach, err)
		return true
	}
	m := plane.NewMirror(plane.MirrorConfig{
		Retain: y.cfg.MirrorRetain, MaxLag: y.cfg.Plane.Policy.MaxLag, Budget: y.cfg.Plane.Budget, Deserted: l.deserted,
	}, l.id, l.from, u.epoch)
	var p patience
	for first := (*plane.Frame)(nil); ; {
		since, pos, durable := time.Now(), m.Pos(), m.Durable()
		lost := l.feed(m, u, first)
		u.close()
		switch {
		case m.Done():
			return !m.Sealed()
		case !m.Begun() && errors.Is(lost.err, ErrAttachTimeout):
			l.complain(PhaseAttach, lost.err)
			_ = m.Feed(plane.Frame{Kind: plane.KindAbsent}) // nobody has joined
			return true
		case lost.err != nil:
			l.complain(PhaseFrames, lost.err)
		}
		healthy := time.Since(since) >= y.cfg.AttachWindow && !errors.Is(lost.err, os.ErrDeadlineExceeded)
		p.begin(y.cfg.AttachWindow, healthy || m.Pos() > pos || m.Durable() > durable)
		rewound := false
		if m.Begun() {
			u, first, rewound = l.again(m, &p)
		} else {
			u = nil
		}
		if u == nil {
			l.lose(m, lost)
			return !rewound
		}
		y.counts.reattached.Add(1)
	}
}

// loss is how a source was lost: by an error, or by a frame that sends elsewhere.
type loss struct {
	err   error
	frame plane.Frame
}

// feed gives the mirror what the source says until its end, or until the source is
// lost.
func (l *link) feed(m *plane.Mirror, u *upstream, first *plane.Frame) (lost loss) {
	for !m.Done() {
		f, err := plane.Frame{}, error(nil)
		if first != nil {
			f, first = *first, nil
		} else {
			f, err = u.next()
		}
		switch {
		case isFinal(err):
			l.complain(PhaseFrames, m.Break(err))
		case err != nil:
			return loss{err: err}
		case m.Begun() && elsewhere(f, m.Pos()):
			return loss{frame: f}
		default:
			if err := m.Feed(f); err != nil {
				l.complain(PhaseFrames, err)
			}
		}
		if m.Begun() && !isClosed(l.ready) {
			u.limit.Stop()
			l.open(m)
		}
		if l.system.cfg.Plane.Budget.Exceeded() {
			l.system.press()
		}
	}
	return loss{}
}

// isFinal reports whether a source broke the rules, and did not only break.
func isFinal(err error) bool {
	v, ok := errors.AsType[plane.Violation](err)
	return ok && v != plane.NoTerminal && v != plane.SourceFailed
}

// elsewhere reports whether f says that the stream goes on elsewhere, or may: its
// owner is no more, or has handed it over. A stale for who is too far behind does
// not.
func elsewhere(f plane.Frame, pos int64) bool {
	return f.Kind == plane.KindAbsent || f.Kind == plane.KindStale && f.FloorSeq <= pos
}

// lose ends the mirror of a stream whose source is lost.
func (l *link) lose(m *plane.Mirror, lost loss) {
	switch {
	case l.system.closing.Err() != nil:
		_ = m.Feed(plane.Frame{Kind: plane.KindAbsent})
	case lost.err == nil && l.ctx.Err() == nil:
		_ = m.Feed(lost.frame)
	default:
		_ = m.Break(lost.err) // what is to be said of it was said
	}
	if !isClosed(l.ready) {
		l.open(m)
	}
}

// again attaches the stream where its mirror is, until the patience is over. It
// returns the source and what it said first; nil if there is none, or if the
// stream has been rewound.
func (l *link) again(m *plane.Mirror, p *patience) (u *upstream, first *plane.Frame, rewound bool) {
	for p.wait(l.ctx) {
		u, err := l.attach(p.until, m.Pos(), m.Epoch())
		if err != nil {
			l.complain(PhaseAttach, err)
			continue
		}
		if u.epoch != 0 && u.epoch < m.Epoch() {
			l.complain(PhaseAttach, fmt.Errorf("%w: %d, %d is known", errZombie, u.epoch, m.Epoch()))
			u.close()
			continue
		}
		f, err := u.next()
		newer := m.Epoch() != 0 && u.epoch > m.Epoch()
		switch {
		case err != nil:
			l.complain(PhaseAttach, err)
		case elsewhere(f, m.Pos()):
		case newer && (f.Kind != plane.KindOpen || f.From < m.Pos()):
			u.close()
			return nil, nil, true
		default:
			u.limit.Stop()
			if newer {
				m.Renew(u.epoch)
			}
			return u, &f, false
		}
		u.close()
	}
	return nil, nil, false
}

// barrenWindows is for how many attach windows a stream is attached again whose
// sources only ever open and break.
const barrenWindows = 3

// patience is how long a stream is attached again, and how often it was since a
// source was of use: it gave text, or a durable mark, or lived for an attach window.
// One that only ever breaks is not asked without a pause, nor for ever.
type patience struct {
	until time.Time // of this loss
	limit time.Time // of all since a source was of use
	tries int
}

// begin takes note of a source that was lost.
func (p *patience) begin(window time.Duration, useful bool) {
	now := time.Now()
	if useful || p.limit.IsZero() {
		p.tries, p.limit = 0, now.Add(barrenWindows*window)
	}
	p.until = now.Add(window)
	if p.until.After(p.limit) {
		p.until = p.limit
	}
}

// wait pauses before the next attempt, and reports whether there should be one.
func (p *patience) wait(ctx context.Context) bool {
	p.tries++
	if p.tries == 1 {
		return ctx.Err() == nil
	}
	pause := jitter(min(firstRetry<<min(p.tries-2, 8), maxRetry))
	timer := time.NewTimer(min(pause, time.Until(p.until)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return time.Now().Before(p.until)
	case <-ctx.Done():
		return false
	}
}

// attach asks the relay for a source, until a deadline that holds for the source's
// first frame, too. A source that comes later is closed.
func (l *link) attach(until time.Time, from, epoch int64) (*upstream, error) {
	y := l.system
	y.counts.attaches.Add(1)
	u := new(upstream)
	u.ctx, u.cancel = context.WithCancelCause(l.ctx)
	u.limit = time.AfterFunc(time.Until(until), func() { u.cancel(ErrAttachTimeout) })
	answers := make(chan answer)
	y.tasks.Go(func() {
		a := y.ask(u.ctx, l.id, from, epoch)
		select {
		case answers <- a:
		case <-u.ctx.Done():
			a.close()
		}
	})
	var a answer
	select {
	case a = <-answers:
	case <-u.ctx.Done():
	}
	u.source, u.epoch = a.source, a.epoch
	err := a.err
	switch {
	case u.ctx.Err() != nil:
		err = context.Cause(u.ctx)
	case err != nil:
	case a.source == nil:
		err = errNobody
	}
	if err != nil {
		u.close()
		return nil, err
	}
	return u, nil
}

// answer is a relay's to an attach.
type answer struct {
	source Source
	epoch  int64
	err    error
}

func (y *System) ask(ctx context.Context, id string, from, epoch int64) (a answer) {
	a.err = caught(func() (err error) {
		a.source, a.epoch, err = y.cfg.Relay.Attach(ctx, id, from, epoch)
		return err
	})
	return a
}

func (a answer) close() {
	if a.source != nil {
		_ = caught(a.source.Close)
	}
}

// next returns the source's next frame.
func (u *upstream) next() (f plane.Frame, err error) {
	err = caught(func() (err error) {
		f, err = u.source.Next(u.ctx)
		return err
	})
	switch {
	case err != nil && u.ctx.Err() != nil:
		err = context.Cause(u.ctx)
	case err == io.EOF:
		err = plane.NoTerminal
	case err != nil:
		if _, ok := errors.AsType[plane.Violation](err); !ok {
			err = fmt.Errorf("%w: %w", plane.SourceFailed, err)
		}
	}
	return f, err
}

// close gives the source back.
func (u *upstream) close() {
	u.limit.Stop()
	u.cancel(nil)
	answer{source: u.source}.close()
}

// complain reports a failure, unless it is none: nobody hosts the stream, or the
// link was ended.
func (l *link) complain(phase Phase, err error) {
	if !errors.Is(err, errNobody) && l.ctx.Err() == nil {
		l.system.failed(phase, l.id, err)
	}
}
