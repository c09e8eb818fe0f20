package plane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Handover is what a Store does, beside the rest, for streams that go from one
// node to another while they live. Each call is one conditional write: of all that
// ask at once for one thing one gets it, and a repeat changes nothing. A store
// that has no place for owner tokens answers errors.ErrUnsupported.
type Handover interface {
	// Disown makes the row of id nobody's if it is streaming under token, and
	// answers the row as it is then, whether or not it changed anything. Text,
	// length, epoch and cancel flag stay. In place of the token comes a mark, another
	// one each time, which is no writer's: from then on no Append reaches the row,
	// and no Seal but one with the mark as its Token, which is TakeBack's. It is
	// /microseconds.session/epoch, with origins after it as a token has them; session
	// is the ProducerEpoch's. ErrNotFound if there is no row.
	Disown(ctx context.Context, id, token string, session int64) (Row, error)

	// Adopt makes the row of id that was disowned with mark the node's, and answers
	// it. The owner token is node's with the epoch and the origins that the row has: what
	// was produced is all there, so that no reader has to go back. A row that is
	// node's own already is an adoption whose answer was lost: it is answered as
	// it is.
	//
	// It refuses, changing nothing, with ErrNotFound (no row, or one that was not
	// opened yet), ErrClosed (it has ended), ErrHeld (streaming under another's
	// token) or ErrLostRace (disowned with another mark than this, by now).
	Adopt(ctx context.Context, id, mark, node string) (Row, error)
}

// Disowned reports whether the row was given up by its owner, who left all of its
// text, and is to be adopted. Its token is then the mark that Adopt takes. No name
// of a node is empty, so that no owner token begins with a slash.
func (r Row) Disowned() bool { return r.Status == StatusStreaming && strings.HasPrefix(r.Token, "/") }

// Moved is how a stream left its node.
type Moved struct {
	// Row is what the store answered: disowned, or adopted since.
	Row Row

	// Late says that some call got no answer. What it asked for may still be done, to a
	// row that this node adopts anew. Some time must pass before it does.
	Late bool
}

// move is a hand-over. Once the store was asked to disown the row without an answer
// there is no way back: what is pushed after the row is given up would be lost.
type move struct {
	done  chan struct{} // closed when it is known how it went
	left  chan struct{} // closed when the stream is abandoned; then nil
	moved Moved
	err   error
}

// HandOver gives the stream up to whichever node adopts it. It takes no more text
// from now on (ErrMoved), makes all of it durable, and has the store disown the
// row; then its readers get stale, and all that is asked of the stream is answered
// ErrMoved. Half of a pair whose mate has not come stays behind: ErrMoved says
// where the text ends that goes along, and the producer sends again from there.
//
// A stream whose text can't be made durable goes on as before, and so does one
// whose row the store certainly did not disown before ctx was done, or can't. Where
// it gave no answer the call is repeated for as long as it takes, beyond ctx, and
// the stream takes no more. If the row turns out to be another's the stream has
// ended, as by any write: ErrFenced.
//
// A stream that was asked to stop is not handed over but sealed, since the flag
// need not be in the store: ErrCancelled. One that ends is answered ErrClosed, one
// that is handed over already ErrMoved.
func (s *Stream) HandOver(ctx context.Context) (Moved, error) {
	store, ok := s.cfg.Store.(Handover)
	if !ok {
		return Moved{}, fmt.Errorf("hand over stream: %w", errors.ErrUnsupported)
	}
	m, err := s.beginMove()
	if err == nil {
		_, err = s.Flush(ctx)
		if err = s.disown(ctx, store, m, err); err == nil {
			select {
			case <-m.done:
				err = m.err
			case <-ctx.Done():
				err = m.soFar(ctx.Err())
			}
		}
	}
	switch {
	case err == nil:
		return m.moved, nil
	case errors.Is(err, ErrCancelled):
		_, failed := s.Close(ctx)
		err = errors.Join(err, failed)
	}
	return Moved{}, fmt.Errorf("hand over stream: %w", err)
}

// beginMove stops the intake.
func (s *Stream) beginMove() (*move, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch err := s.refusal(); {
	case err != nil:
		return nil, err
	case s.IsCancelled():
		return nil, ErrCancelled
	}
	s.move = &move{done: make(chan struct{}), left: make(chan struct{})}
	s.wakePushes()
	return s.move, nil
}

// disown starts to have the row disowned, unless that is not to be: then it says
// why, and the stream goes on.
func (s *Stream) disown(ctx context.Context, store Handover, m *move, flushed error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over != nil: // fenced, or abandoned
		flushed = s.over
	case flushed == nil && s.IsCancelled():
		flushed = ErrCancelled
	case flushed == nil && (s.inFlight || s.outstanding() > 0):
		flushed = s.short(nil)
	}
	if flushed != nil {
		s.endMove(m, flushed)
		return flushed
	}
	s.inFlight = true
	s.tasks.Go(func() { s.runDisown(ctx, store, m, m.left) })
	return nil
}

// runDisown asks the store until the row is nobody's, or it makes no sense to.
func (s *Stream) runDisown(ctx context.Context, store Handover, m *move, left <-chan struct{}) {
	var moved Moved
	for n := 0; ; n++ {
		row, err := s.attemptDisown(store, moved.Late)
		switch {
		case err == nil:
			moved.Row = row
			s.settleMove(m, moved, nil)
			return
		case errors.Is(err, ErrFenced):
			s.settleMove(m, moved, err)
			return
		case !undone(err):
			moved.Late = true
		case !moved.Late && (ctx.Err() != nil || !errors.Is(err, ErrBusy)):
			s.settleMove(m, moved, err)
			return
		}
		if !rest(s.pauseOfMove(ctx, moved, n), left) {
			s.settleMove(m, moved, errors.Join(ErrClosed, err))
			return
		}
	}
}

// pauseOfMove is the pause before the next try: no longer than ctx if that decides
// whether there is one.
func (s *Stream) pauseOfMove(ctx context.Context, m Moved, n int) time.Duration {
	pause := s.cfg.Policy.retryDelay(n)
	if end, ok := ctx.Deadline(); ok && !m.Late {
		pause = min(pause, time.Until(end))
	}
	return pause
}

// undone reports whether err says for certain that nothing was done, and nothing
// will be.
func undone(err error) bool {
	return errors.Is(err, ErrBusy) || errors.Is(err, ErrBroken) || errors.Is(err, errors.ErrUnsupported)
}

// attemptDisown asks the store once, and on failure whether it was done all the
// same. ErrFenced says that the row is another's. Only if a call had no answer, this
// one or one before, can there be more text by now: of who has adopted the row.
func (s *Stream) attemptDisown(store Handover, late bool) (Row, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Policy.StoreTimeout)
	defer cancel()
	row, err := store.Disown(ctx, s.id, s.token, s.ProducerEpoch().Session)
	known := err == nil
	if err != nil {
		row, known, err = s.readBack(err)
	}
	if !known {
		return row, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case row.Token != s.token && row.Epoch == s.epoch && (row.Seq == s.durable || row.Seq > s.durable && (late || err != nil)):
		return row, nil // tokens change within an epoch only when an owner gives the row up
	case row.Token != s.token || row.Status != StatusStreaming || row.Seq != s.durable:
		return row, fmt.Errorf("%w: the row is %s at %d under token %q, ours is %q at %d",
			ErrFenced, row.Status, row.Seq, row.Token, s.token, s.durable)
	case err == nil:
		return row, errors.New("the store did not disown the row")
	default:
		return row, err
	}
}

// settleMove takes over what came of asking the store.
func (s *Stream) settleMove(m *move, moved Moved, err error) {
	if err == nil && s.cfg.Hooks.Moved != nil {
		s.guard("Moved", func() { s.cfg.Hooks.Moved(s, moved) })
	}
	fenced := errors.Is(err, ErrFenced)
	s.mu.Lock()
	s.inFlight = false
	m.moved = moved
	switch {
	case fenced:
		s.standDown(err)
	case err == nil:
		s.in = intake{}
		s.takeNoMore(s.moving())
		s.terminate(s.stale())
	}
	s.endMove(m, err)
	s.unlock()
	if fenced {
		s.reportEnded()
	}
}

// endMove says how a hand-over went. Unless it went well, the stream is as if none
// had begun. s.mu is held.
func (s *Stream) endMove(m *move, err error) {
	m.err = err
	close(m.done)
	if err == nil {
		return
	}
	s.move = nil
	if s.grace != nil && s.over == nil { // it may have passed meanwhile
		s.grace.Reset(s.cfg.Policy.CancelGrace)
	}
}

// soFar is how the hand-over went, or late if that is not known yet.
func (m *move) soFar(late error) error {
	select {
	case <-m.done:
		return m.err
	default:
		return late
	}
}

// awaitMove takes s.mu when no hand-over is under way. With an error s.mu is not
// held.
func (s *Stream) awaitMove(ctx context.Context) error {
	for {
		s.mu.Lock()
		if s.move == nil || s.over != nil || s.ending != nil {
			return nil
		}
		done := s.move.done
		s.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// leaveMove ends the repeats of a hand-over. s.mu is held.
func (s *Stream) leaveMove() {
	if m := s.move; m != nil && m.left != nil {
		close(m.left)
		m.left = nil
	}
}

// moving is what a producer is told while the stream is handed over, and after.
// s.mu is held.
func (s *Stream) moving() error {
	return &OffsetError{Kind: ErrMoved, From: s.text.end(), Want: s.text.end()}
}

// Refusal says why the stream takes no text; nil if it does.
func (s *Stream) Refusal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusal()
}

// refusal is Refusal with s.mu held.
func (s *Stream) refusal() error {
	if s.over == nil && s.move != nil {
		return s.moving()
	}
	return s.over
}
