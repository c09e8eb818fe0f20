package plane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Ending is how a stream ended.
type Ending struct {
	Status   Status // interrupted if the seal did not reach the store
	Seq      int64  // the durable length
	Error    string // with StatusError
	HasError bool
	Err      error // why the seal did not reach the store; nil if it did
}

// ending is a seal on its way.
type ending struct {
	Ending
	replaced int64 // characters that never found their other half
	resolved bool
	written  bool          // the row has ended
	done     chan struct{} // closed when Ending is what happened
	left     chan struct{} // closed when the stream is abandoned: no repeat waits any longer; then nil
}

// Close seals the stream: cancelled if it was asked to stop, else complete. The
// first of Close, Fail and Interrupt decides; every later call answers the
// same, once it is known. ctx bounds the wait, not the seal. While the stream is
// handed over they wait for how that goes, and answer ErrMoved if it goes well.
//
// If the seal can't reach the store (a row that somebody else has locked is waited
// for, see Policy.SealPatience), the error is a ShortError, and readers are
// told that the stream was interrupted at its durable length.
func (s *Stream) Close(ctx context.Context) (Ending, error) {
	return s.CloseAs(ctx, ProducerEpoch{})
}

// CloseAs is Close by a producer: ErrSuperseded, or ErrProducerEpoch, if it is not the
// stream's. FailAs and InterruptAs are alike.
func (s *Stream) CloseAs(ctx context.Context, as ProducerEpoch) (Ending, error) {
	return s.seal(ctx, as, Ending{Status: StatusComplete})
}

// Fail is Close for a response that went wrong: it seals with StatusError and
// the message.
func (s *Stream) Fail(ctx context.Context, message string) (Ending, error) {
	return s.FailAs(ctx, ProducerEpoch{}, message)
}

// FailAs is Fail by a producer; see CloseAs.
func (s *Stream) FailAs(ctx context.Context, as ProducerEpoch, message string) (Ending, error) {
	return s.seal(ctx, as, Ending{Status: StatusError, Error: message, HasError: true})
}

// Interrupt is Close for a response whose end is not known: its producer is
// gone, or the node is being stopped. It seals with StatusInterrupted.
func (s *Stream) Interrupt(ctx context.Context) (Ending, error) {
	return s.InterruptAs(ctx, ProducerEpoch{})
}

// InterruptAs is Interrupt by a producer; see CloseAs.
func (s *Stream) InterruptAs(ctx context.Context, as ProducerEpoch) (Ending, error) {
	return s.seal(ctx, as, Ending{Status: StatusInterrupted})
}

func (s *Stream) seal(ctx context.Context, as ProducerEpoch, wanted Ending) (Ending, error) {
	if err := s.awaitMove(ctx); err != nil {
		return Ending{}, fmt.Errorf("seal stream: %w", err)
	}
	if err := s.fence(as); err != nil {
		s.mu.Unlock()
		return Ending{}, fmt.Errorf("seal stream: %w", err)
	}
	if s.ending == nil {
		if s.over != nil { // fenced, abandoned, or another node's
			defer s.mu.Unlock()
			return Ending{Status: StatusInterrupted, Seq: s.durable}, s.over
		}
		s.beginSeal(wanted)
	}
	e := s.ending
	s.unlock()
	return e.await(ctx)
}

// await answers how the stream ended, when that is known.
func (e *ending) await(ctx context.Context) (Ending, error) {
	select {
	case <-e.done:
		return e.Ending, e.Err
	case <-ctx.Done():
	}
	select {
	case <-e.done: // it is known, to who comes late as well
		return e.Ending, e.Err
	default:
		return Ending{}, fmt.Errorf("seal stream: %w", ctx.Err())
	}
}

// beginSeal stops the intake and starts the seal, after the round in flight if
// there is one. s.mu is held.
func (s *Stream) beginSeal(wanted Ending) {
	if wanted.Status == StatusComplete && s.IsCancelled() {
		wanted.Status = StatusCancelled
	}
	before := s.in.replaced
	s.produce(s.in.flush())
	s.ending = &ending{Ending: wanted, replaced: s.in.replaced - before, done: make(chan struct{}), left: make(chan struct{})}
	s.takeNoMore(ErrClosed)
	if !s.inFlight {
		s.startSeal()
	}
}

// takeNoMore refuses text from now on, and ends what waits to add some. s.mu is
// held.
func (s *Stream) takeNoMore(why error) {
	if s.over == nil {
		close(s.shut)
	}
	s.over = why
	s.disarm()
	if s.grace != nil {
		s.grace.Stop()
	}
	s.wakePushes()
}

// startSeal writes the end. s.mu is held, and no round is in flight.
func (s *Stream) startSeal() {
	s.inFlight = true
	seal, left := s.sealAs(s.ending.Ending), s.ending.left
	s.tasks.Go(func() { s.runSeal(seal, left) })
}

// maxLockedPause bounds the pause before a row that is locked is asked for again.
const maxLockedPause = time.Second

func (s *Stream) runSeal(seal Seal, left <-chan struct{}) {
	began, p := time.Now(), s.cfg.Policy
	var out outcome
	for attempts, failed := 1, 0; ; attempts++ {
		out = s.attemptSeal(seal)
		out.attempts = attempts
		if out.err == nil || final(out.err) {
			break
		}
		pause := p.retryDelay(failed)
		if errors.Is(out.err, ErrBusy) && time.Since(began) < p.SealPatience {
			pause = min(p.retryDelay(attempts-1), maxLockedPause)
		} else if failed++; failed > p.Retries {
			break
		}
		if !rest(pause, left) {
			break
		}
	}
	out.took = time.Since(began)
	s.settleSeal(seal, out)
}

// attemptSeal asks the store once, and on failure whether it was done all the
// same: a lost answer is no failure.
func (s *Stream) attemptSeal(seal Seal) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Policy.StoreTimeout)
	defer cancel()
	row, err := s.cfg.Store.Seal(ctx, seal)
	out := outcome{row: row, known: err == nil, err: err}
	if err != nil {
		out.row, out.known, out.err = s.readBack(err)
	}
	if !out.known {
		return out
	}
	switch row := out.row; {
	case row.Token != s.token:
		out.err = fmt.Errorf("%w: the row is %s under token %q, ours is %q", ErrFenced, row.Status, row.Token, s.token)
	case row.Status.Ended() && row.Seq == seal.Seq:
		out.err = nil // ours, now or by the answer that was lost
	case row.Status == StatusInterrupted && row.Seq < seal.Base: // the store has no more
		out.err = fmt.Errorf("%w: it ends at %d of %d: %s", ErrTextLost, row.Seq, seal.Seq, row.Error)
	case row.Status.Ended():
		out.err = fmt.Errorf("%w: the row ended %s at %d of %d", ErrFenced, row.Status, row.Seq, seal.Seq)
	case err == nil && (row.Seq < seal.From || row.Seq > seal.Seq): // only our own slices move the length
		out.err = fmt.Errorf("%w: the row is %s at %d, ours is at %d to %d", ErrFenced, row.Status, row.Seq, seal.From, seal.Seq)
	case err == nil:
		out.err = fmt.Errorf("seal changed nothing: the row is %s at %d of %d", row.Status, row.Seq, seal.Seq)
	}
	return out
}

// settleSeal ends the stream for all who wait for it.
func (s *Stream) settleSeal(seal Seal, out outcome) {
	s.mu.Lock()
	s.inFlight = false
	fenced := errors.Is(out.err, ErrFenced)
	ours := out.err == nil || slices.Contains(s.tried, out.row.Seq)
	lost := errors.Is(out.err, ErrTextLost)
	if lost {
		s.confirm(out.row.Seq)
	}
	if out.known && !fenced && ours && out.row.Seq > s.durable && out.row.Seq <= seal.Seq {
		s.confirm(out.row.Seq)
	}
	switch {
	case fenced:
		s.standDown(out.err)
	case lost:
		s.ending.written = true
		s.finish(Ending{Status: out.row.Status, Error: out.row.Error, HasError: out.row.Error != "", Err: s.short(out.err)})
	case out.err != nil:
		s.finish(Ending{Status: StatusInterrupted, Err: s.short(out.err)})
	default:
		s.ending.written = true
		s.finish(Ending{Status: out.row.Status, Error: seal.Error, HasError: seal.HasError})
	}
	s.unlock()
	s.report(Checkpoint{
		From: seal.From, Seq: seal.Seq, Seal: true, Attempts: out.attempts, Took: out.took, Err: out.err,
	})
	s.reportEnded()
}

// Reseal tries once more to write the end of a stream whose seal did not reach
// the store, so that its row does not say streaming for ever (L): interrupted,
// with all that was produced. It answers nil if the row has ended, and ErrFenced
// if it is another's or gone.
func (s *Stream) Reseal() error {
	s.mu.Lock()
	if e := s.ending; s.retired || e == nil || !e.resolved || e.written || s.inFlight {
		s.mu.Unlock()
		return nil
	}
	s.inFlight = true
	s.tasks.Add(1)
	defer s.tasks.Done()
	seal := s.sealAs(Ending{Status: StatusInterrupted})
	s.mu.Unlock()

	began := time.Now()
	out := s.attemptSeal(seal)
	lost := errors.Is(out.err, ErrTextLost)
	s.mu.Lock()
	s.inFlight = false
	if out.err == nil || lost {
		s.durable, s.ending.written = out.row.Seq, true
		if s.end.Kind == KindEnd { // for who joins from now on
			s.end = &Frame{
				Kind: KindEnd, Seq: s.durable, Status: out.row.Status, Error: out.row.Error, HasError: out.row.Error != "", Epoch: s.epoch,
			}
		}
	}
	s.mu.Unlock()
	switch {
	case lost:
		s.report(Checkpoint{From: seal.From, Seq: seal.Seq, Seal: true, Attempts: 1, Took: time.Since(began), Err: out.err})
	case out.err != nil:
		return out.err
	}
	s.cfg.repaired(s.id, out.row)
	return nil
}

// sealAs is the seal of all that is in memory. s.mu is held.
func (s *Stream) sealAs(e Ending) Seal {
	var meta json.RawMessage
	if s.meta != nil {
		meta = *s.meta
	}
	return Seal{
		Meta: meta, ID: s.id, Token: s.token, Status: e.Status, Error: e.Error, HasError: e.HasError,
		From: s.durable, Base: s.floor, Seq: s.text.end(), Text: s.text.slice(s.floor, s.text.end()),
	}
}

// finish ends the stream as its seal says. s.mu is held.
func (s *Stream) finish(e Ending) {
	s.terminate(Frame{
		Kind: KindEnd, Seq: s.durable, Status: e.Status, Error: e.Error, HasError: e.HasError, Epoch: s.epoch,
	})
	s.answer(s.text.end(), e.Err)
	s.resolve(e)
}

// standDown ends a stream whose row is another's, or gone: its readers read the durable
// plane, its producer is told, and nothing more is written. s.mu is held.
func (s *Stream) standDown(why error) {
	s.takeNoMore(why)
	s.terminate(s.stale())
	s.answer(s.text.end(), why)
	s.resolve(Ending{Status: StatusInterrupted, Err: why})
}

// terminate sets the terminal frame, unless there is one. s.mu is held.
func (s *Live) terminate(f Frame) {
	if s.end != nil {
		return
	}
	f.shared = new(shared)
	s.end = &f
	s.changed = true
	s.wakeConfirmed()
	s.recent = nil
}

// resolve tells those who asked for a seal how it went, once. s.mu is held.
func (s *Stream) resolve(e Ending) {
	if s.ending == nil || s.ending.resolved {
		return
	}
	e.Seq = s.durable
	s.ending.Ending, s.ending.resolved = e, true
	close(s.ending.done)
}

// sealError is why the seal did not reach the store. s.mu is held, and the
// stream has ended.
func (s *Stream) sealError() error {
	if s.ending != nil {
		var short *ShortError
		if errors.As(s.ending.Err, &short) {
			return short.Cause
		}
		return s.ending.Err
	}
	return s.over
}

// reportEnded tells the hooks that the stream is over. s.mu is not held.
func (s *Stream) reportEnded() {
	s.mu.Lock()
	e := ending{Ending: Ending{Status: StatusInterrupted, Seq: s.durable, Err: s.over}}
	if s.ending != nil {
		e = *s.ending
	}
	s.mu.Unlock()
	s.reportReplaced(e.replaced)
	if s.cfg.Hooks.Ended != nil {
		s.guard("Ended", func() { s.cfg.Hooks.Ended(s, e.Ending) })
	}
}

// Abandon ends the stream on this node without a write: readers are told that
// it is not hosted here any more, and whoever waits is refused. It returns when
// nothing of the stream runs any longer, or ctx is done.
func (s *Stream) Abandon(ctx context.Context) error {
	s.mu.Lock()
	if s.over == nil {
		s.takeNoMore(ErrClosed)
	}
	if e := s.ending; e != nil && e.left != nil {
		close(e.left)
		e.left = nil
	}
	s.leaveMove()
	s.terminate(Frame{Kind: KindAbsent})
	s.answer(s.text.end(), ErrClosed)
	s.unlock()
	idle := make(chan struct{})
	go func() { s.tasks.Wait(); close(idle) }() // store calls have deadlines
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
