package plane

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// A round commits one slice: an attempt, its repeats, and what follows from the
// outcome. At most one is in flight; text that comes meanwhile is the next
// round's, all of it, so that a slow store means fewer and larger slices.

// waiter is a flush: it is answered once the store holds everything below aim.
type waiter struct {
	aim    int64
	answer chan error // buffered
}

// Flush waits until the store holds everything that was pushed before, and
// returns the durable length. It is the ordering primitive: what is written
// after it has the text before it. If the store can't, it answers a ShortError;
// the text is not lost by that, and later checkpoints try again. While the store
// is down a flush brings the next attempt forward, or, if the last one was, waits
// for it: no longer than Policy.MaxBackoff and a round. ctx bounds the wait, not
// the checkpoint.
func (s *Stream) Flush(ctx context.Context) (durable int64, err error) {
	return s.FlushAs(ctx, ProducerEpoch{})
}

// FlushAs is Flush by a producer: ErrSuperseded, or ErrProducerEpoch, if it is not the
// stream's.
func (s *Stream) FlushAs(ctx context.Context, as ProducerEpoch) (durable int64, err error) {
	s.mu.Lock()
	aim := s.text.end()
	switch err := s.fence(as); {
	case err != nil:
		defer s.mu.Unlock()
		return s.durable, err
	case s.durable >= aim:
		defer s.mu.Unlock()
		s.hear()
		return s.durable, nil
	case s.end != nil:
		defer s.mu.Unlock()
		return s.durable, s.short(s.sealError())
	}
	w := waiter{aim, make(chan error, 1)}
	s.waiters = append(s.waiters, w)
	s.by.holds++
	defer s.release()
	switch {
	case s.inFlight:
	case s.failed == 0:
		s.start(s.cfg.Policy.Retries)
	case !s.hurried:
		s.hurry()
	}
	s.unlock()

	select {
	case err = <-w.answer:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return s.State().Durable, err
}

// short is the error of somebody who waited for text that is not durable. s.mu
// is held.
func (s *Stream) short(cause error) error {
	if errors.Is(cause, ErrFenced) {
		return cause
	}
	return &ShortError{Durable: s.durable, Produced: s.text.end(), Cause: cause}
}

// trigger starts a round if enough is outstanding, or sees that one will start
// in time. s.mu is held.
func (s *Stream) trigger() {
	switch {
	case s.outstanding() == 0 || s.ending != nil || s.over != nil:
	case !s.inFlight && s.failed == 0 && s.outstanding() >= s.cfg.Policy.Units:
		s.start(s.cfg.Policy.Retries)
	default:
		s.arm(s.cfg.Policy.Interval)
	}
}

// arm makes the timer start a round after wait, unless it is armed already: the
// interval runs from the first uncommitted delta. s.mu is held.
func (s *Stream) arm(wait time.Duration) {
	if !s.due.IsZero() {
		return
	}
	s.due = time.Now().Add(wait)
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, s.tick)
		return
	}
	s.timer.Reset(wait)
}

// disarm stops the timer. s.mu is held.
func (s *Stream) disarm() {
	s.due = time.Time{}
	if s.timer != nil {
		s.timer.Stop()
	}
}

// tick is the timer's. A tick that was on its way when the timer was stopped or
// set anew finds nothing due.
func (s *Stream) tick() {
	s.mu.Lock()
	defer s.unlock()
	if s.due.IsZero() || time.Now().Before(s.due) {
		return
	}
	s.due = time.Time{}
	switch {
	case s.ending != nil || s.over != nil || s.outstanding() == 0:
	case s.inFlight:
		s.overdue = true
	case s.failed > 0: // the store is down: one attempt a step
		s.hurried = false
		s.start(0)
	default:
		s.start(s.cfg.Policy.Retries)
	}
}

// hurry makes the attempt that is due next at once. No two in a row are, so that
// however many flushes come, the attempts keep to their steps. s.mu is held.
func (s *Stream) hurry() {
	s.hurried = true
	s.start(0)
}

// start begins a round over what is outstanding. s.mu is held, and no round is
// in flight.
func (s *Stream) start(retries int) {
	to := s.text.end()
	if to-s.durable > s.cfg.Policy.MaxSlice {
		to = s.text.floor(s.durable + s.cfg.Policy.MaxSlice)
	}
	slice := Slice{ID: s.id, Token: s.token, From: s.durable, Seq: to, Text: s.text.slice(s.durable, to)}
	s.inFlight, s.overdue, s.aim = true, false, s.text.end()
	s.disarm()
	if !slices.Contains(s.tried, to) {
		s.tried = append(s.tried, to)
	}
	s.tasks.Go(func() { s.round(slice, retries) })
}

// outcome is what a round learned.
type outcome struct {
	row      Row
	known    bool // row is what the store holds
	err      error
	cut      bool // a seal took over before the retries were used up
	attempts int
	took     time.Duration
}

func (s *Stream) round(slice Slice, retries int) {
	began := time.Now()
	var out outcome
	for n := 0; ; n++ {
		out = s.attempt(slice)
		out.attempts = n + 1
		if out.err == nil || n == retries || final(out.err) {
			break
		}
		if out.cut = !s.pause(n); out.cut {
			break
		}
	}
	if out.err != nil && !out.known && !errors.Is(out.err, ErrFenced) {
		// The last word on a failed round: a commit whose answer was lost counts.
		if out.row, out.known, out.err = s.readBack(out.err); out.known {
			if judged := s.judge(slice, out.row); errors.Is(judged, ErrFenced) {
				out.err = judged
			}
		}
	}
	out.took = time.Since(began)
	s.settle(slice, out)
}

// final reports whether repeating a write at once can't help.
func final(err error) bool {
	for _, e := range []error{ErrFenced, ErrBroken, ErrWentBack, ErrTextLost} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// attempt asks the store once, and on failure what it holds: a commit whose
// answer was lost is a success, not a second try.
func (s *Stream) attempt(slice Slice) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Policy.StoreTimeout)
	defer cancel()
	row, err := s.cfg.Store.Append(ctx, slice)
	out := outcome{row: row, known: err == nil, err: err}
	if err != nil {
		out.row, out.known, out.err = s.readBack(err)
	}
	if !out.known {
		return out
	}
	if judged := s.judge(slice, out.row); judged == nil || err == nil || errors.Is(judged, ErrFenced) {
		out.err = judged
	}
	return out
}

// readBack asks what the store holds after a write that failed with cause, and
// returns what is to be said of it. A row that neither finds is gone: whoever
// deleted it has the stream now.
func (s *Stream) readBack(cause error) (row Row, known bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Policy.StoreTimeout)
	defer cancel()
	row, err = s.cfg.Store.Read(ctx, s.id)
	if errors.Is(err, ErrNotFound) && errors.Is(cause, ErrNotFound) {
		cause = fmt.Errorf("%w: its row is gone: %w", ErrFenced, cause)
	}
	return row, err == nil, cause
}

// judge says what a row means for the slice that was to end up in it: nil if it
// is there, ErrFenced if the row is not ours any more.
func (s *Stream) judge(slice Slice, row Row) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	fenced := row.Token != s.token || row.Status != "" && row.Status != StatusStreaming
	if err := s.wentBack(row, fenced); err != nil {
		return err
	}
	if row.Status != "" && !fenced {
		// In tables only our own slices move the length; any other is another's work.
		fenced = row.Seq != s.durable && !slices.Contains(s.tried, row.Seq)
	}
	switch {
	case fenced:
		return fmt.Errorf("%w: the row is %s at %d under token %q, ours is %q at %d",
			ErrFenced, row.Status, row.Seq, row.Token, s.token, s.durable)
	case row.Seq == slice.Seq:
		return nil
	case row.Seq > slice.Seq:
		return fmt.Errorf("store confirmed %d, past the %d asked", row.Seq, slice.Seq)
	default:
		return fmt.Errorf("store confirmed %d of %d", row.Seq, slice.Seq)
	}
}

// pause waits before repeat n+1, and reports whether there should be one: not
// once a seal was asked for, which goes at once and covers the slice.
func (s *Stream) pause(n int) bool { return rest(s.cfg.Policy.retryDelay(n), s.shut) }

// rest waits, and reports whether it did so until the end: not if enough is
// closed before.
func rest(pause time.Duration, enough <-chan struct{}) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-enough:
		return false
	}
}

// settle takes a round's outcome into the stream's state and starts what is due
// next.
func (s *Stream) settle(slice Slice, out outcome) {
	s.mu.Lock()
	fenced := errors.Is(out.err, ErrFenced)
	if out.known && !fenced {
		s.advance(slice, out.row)
	}
	switch {
	case fenced:
		s.standDown(out.err)
	case errors.Is(out.err, ErrWentBack):
		s.goBack(out.row)
	case out.cut: // the seal covers the slice, and answers who waits for it
	case out.err != nil:
		s.changed = true // the next round may be long in coming: tell what there is
		s.failed++
		s.answer(s.aim, out.err)
	default:
		s.failed, s.hurried = 0, false
		s.tried = s.tried[:0]
	}
	s.inFlight = false
	s.next()
	s.unlock()
	if !out.cut { // else the seal reports
		s.report(Checkpoint{From: slice.From, Seq: slice.Seq, Attempts: out.attempts, Took: out.took, Err: out.err})
	}
	if fenced {
		s.reportEnded()
	}
}

// advance takes over what the store confirmed of a slice. s.mu is held.
func (s *Stream) advance(slice Slice, row Row) {
	if row.Cancel {
		s.cancel()
	}
	if row.Seq <= s.durable || row.Seq > slice.Seq {
		return
	}
	confirmed := s.text.floor(row.Seq) // an application may say that it holds half a pair
	if confirmed == s.durable {
		return
	}
	s.confirm(confirmed)
	s.mark = confirmed
	if s.outstanding() == 0 {
		s.changed = true // else it goes along with the next delta, or is overtaken by the next round
	}
	s.wakePushes()
	s.answer(s.durable, nil)
	s.trim()
}

// answer ends the waiting of flushes up to an offset. s.mu is held.
func (s *Stream) answer(upTo int64, err error) {
	s.waiters = slices.DeleteFunc(s.waiters, func(w waiter) bool {
		if w.aim > upTo {
			return false
		}
		if err != nil && w.aim > s.durable {
			w.answer <- s.short(err)
		} else {
			w.answer <- nil
		}
		return true
	})
}

// next starts what follows a round: the seal that waits, a round that was asked
// for meanwhile, or the timer. s.mu is held.
func (s *Stream) next() {
	p := s.cfg.Policy
	switch {
	case s.end != nil: // fenced or abandoned
		s.resolve(Ending{Status: StatusInterrupted, Err: s.over})
	case s.ending != nil:
		s.startSeal()
	case s.outstanding() == 0:
		s.disarm()
	case s.failed > 0 && len(s.waiters) > 0 && !s.hurried:
		s.hurry()
	case s.failed > 0:
		s.disarm()
		s.arm(p.backoff(s.failed))
	case s.overdue || len(s.waiters) > 0 || s.durable < s.aim || s.outstanding() >= p.Units:
		s.start(p.Retries)
	default:
		s.arm(p.Interval)
	}
}

// backoff is the pause before the next attempt after so many failed rounds: the
// interval, then doubled each time, with jitter so that the streams of a node
// don't knock together.
func (p Policy) backoff(failed int) time.Duration {
	if failed == 1 {
		return p.Interval
	}
	limit := max(p.MaxBackoff, p.Interval)
	step := limit
	if shift := failed - 1; shift < 16 && p.Interval<<shift < limit {
		step = p.Interval << shift
	}
	return step/2 + rand.N(step/2+1)
}

// report tells the hook how a round went, or the log that it failed. s.mu is
// not held.
func (s *Stream) report(c Checkpoint) {
	c.StreamID = s.id
	switch {
	case s.cfg.Hooks.Checkpoint != nil:
		s.guard("Checkpoint", func() { s.cfg.Hooks.Checkpoint(c) })
	case c.Err != nil:
		s.cfg.Logger.Warn("checkpoint failed", "streamId", c.StreamID, "from", c.From, "seq", c.Seq, "error", c.Err)
	}
}
