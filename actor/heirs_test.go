package actor_test

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"
	"unicode/utf16"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
)

// client produces the stream, from wherever it is to be gone on: it resumes it where it
// is live, adopts it where it was given up, and takes it over where its owner died. It
// stops when another has resumed the stream, or when that has ended.
func (l *lineage) client(voice int, r *rand.Rand) {
	l.calls.Go(func() {
		text := utf16.Encode(l.voices[voice])
		for done := false; !done && l.ctx.Err() == nil; {
			time.Sleep(time.Duration(1+r.IntN(100)) * time.Millisecond)
			h := l.host(r.IntN(len(l.hosts)))
			if h.unreachable() {
				continue
			}
			s, as, ended := l.find(h)
			if done = ended; s != nil && !h.unreachable() {
				done = l.say(h, s, as, text, r)
			}
		}
	})
}

func (h *heir) unreachable() bool { return h.away.Load() || h.store.isDead() }

// find makes the stream this client's, where h can.
func (l *lineage) find(h *heir) (s *plane.Stream, as plane.ProducerEpoch, ended bool) {
	ctx, cancel := context.WithTimeout(l.ctx, 5*time.Second)
	defer cancel()
	s, live := h.Stream(traveller)
	if live && s.State().Over {
		live = false
	}
	if !live {
		row, err := h.store.Read(ctx, traveller)
		switch {
		case err != nil:
			return nil, as, false
		case row.Status.Ended():
			return nil, as, true
		case row.Disowned():
			if s, err = h.Adopt(ctx, traveller); err != nil {
				return nil, as, false
			}
		default:
			if s, err = h.TakeOver(ctx, plane.Claim{ID: traveller, Producer: "app"}); err != nil {
				return nil, as, false
			}
			l.tookOver(s)
			return s, s.ProducerEpoch(), false
		}
	}
	as, err := s.Resume("app")
	if err != nil {
		if errors.Is(err, plane.ErrHeld) {
			l.wrongf("resuming was answered %v", err)
		}
		return nil, as, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if as.Before(l.newest[s]) {
		return s, as, false // another was faster still
	}
	l.newest[s] = as
	return s, as, false
}

// tookOver holds a stream that was just taken over to where it must begin.
func (l *lineage) tookOver(s *plane.Stream) {
	l.seen.takeovers.Add(1)
	l.mu.Lock()
	lost := plane.Units(l.texts[s.Epoch()-1]) > s.Rewind(1<<40, s.Epoch()-1)
	l.mu.Unlock()
	if lost {
		l.seen.lost.Add(1)
	}
	l.note(s)
}

// say produces what is to come, and reports whether this client is done.
func (l *lineage) say(h *heir, s *plane.Stream, as plane.ProducerEpoch, text []uint16, r *rand.Rand) (done bool) {
	for at := s.State().Received; ; time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond) {
		end := int64(len(text))
		if at >= end {
			return l.finish(s, as)
		}
		to := min(at+1+r.Int64N(30), end)
		l.mu.Lock()
		fenced := as.Before(l.newest[s])
		l.mu.Unlock()
		ctx, cancel := context.WithTimeout(l.ctx, 5*time.Second)
		var err error
		if r.IntN(4) == 0 {
			err = s.PumpAs(ctx, as, at, pieces(text[at:to]))
		} else {
			err = s.PushAs(ctx, as, at, said(text[at:to]))
		}
		cancel()
		l.note(s)
		switch {
		case h.unreachable(), r.IntN(60) == 0: // the answer is lost, or the connection
			return false
		case err == nil && fenced:
			l.wrongf("%v pushed, and another had resumed", as)
		case err == nil:
			at = to
		case errors.Is(err, plane.ErrSuperseded):
			l.seen.fenced.Add(1)
			return true
		case errors.Is(err, plane.ErrGap), errors.Is(err, plane.ErrConflict), errors.Is(err, plane.ErrProducerEpoch):
			l.wrongf("a push of %v from %d was answered %v", as, at, err)
			return false
		default:
			return false
		}
	}
}

// pieces says text in two deltas.
func pieces(text []uint16) func(context.Context) iter.Seq2[string, error] {
	return func(context.Context) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			half := len(text) / 2
			if yield(said(text[:half]), nil) {
				yield(said(text[half:]), nil)
			}
		}
	}
}

// finish ends the stream, once nothing goes wrong any more.
func (l *lineage) finish(s *plane.Stream, as plane.ProducerEpoch) (done bool) {
	select {
	case <-l.calm:
	case <-time.After(time.Second):
		return false
	}
	_, err := s.CloseAs(l.ctx, as)
	return err == nil || errors.Is(err, plane.ErrSuperseded)
}

// follower is a reader, wherever the stream goes.
type follower struct {
	text  *plane.Accumulator
	epoch int64
	ended bool
}

func (l *lineage) join(r *rand.Rand) {
	f := &follower{text: plane.NewAccumulator(traveller, 0, "")}
	l.mu.Lock()
	l.readers = append(l.readers, f)
	l.mu.Unlock()
	l.calls.Go(func() {
		for !f.ended && l.ctx.Err() == nil {
			time.Sleep(time.Duration(1+r.IntN(20)) * time.Millisecond)
			h := l.host(r.IntN(len(l.hosts)))
			if r.IntN(4) == 0 {
				l.readDurable(f)
			} else if !h.unreachable() {
				l.readLive(f, h, time.Duration(r.IntN(3000))*time.Millisecond)
			}
		}
	})
}

// readLive reads what a node has, for a while.
func (l *lineage) readLive(f *follower, h *heir, d time.Duration) {
	ctx, cancel := context.WithTimeout(l.ctx, d)
	defer cancel()
	c, err := h.Subscribe(ctx, actor.Access{StreamID: traveller, From: f.text.Pos(), Epoch: f.epoch})
	if err != nil {
		return
	}
	defer c.Close()
	for {
		frame, err := c.Next(ctx)
		if err != nil || frame.Kind == plane.KindStale || frame.Kind == plane.KindAbsent || !l.apply(f, frame) {
			return
		}
	}
}

// readDurable reads the durable plane, as a node does for its readers.
func (l *lineage) readDurable(f *follower) {
	ctx, cancel := context.WithTimeout(l.ctx, time.Second)
	defer cancel()
	pos := f.text.Pos()
	page, err := l.store.Text(ctx, traveller, pos, 1<<20)
	if err != nil {
		return
	}
	if from := page.Origins().Rewind(pos, f.epoch, page.Epoch); from < page.From {
		if page, err = l.store.Text(ctx, traveller, from, 1<<20); err != nil {
			return
		}
	}
	if page.From < pos && page.Epoch == f.epoch && page.Status == plane.StatusStreaming {
		return // what the reader has beyond is on its way
	}
	more := l.apply(f, plane.Frame{
		Kind: plane.KindOpen, StreamID: traveller, From: page.From, Seq: page.Seq, DurableSeq: page.Seq,
		Ended: page.Status.Ended(), Epoch: page.Epoch,
	})
	if more && page.Text != "" {
		more = l.apply(f, plane.Frame{Kind: plane.KindChunk, From: page.From, Seq: page.End(), Text: page.Text, Epoch: page.Epoch})
	}
	if more && page.Status.Ended() {
		l.apply(f, plane.Frame{Kind: plane.KindEnd, Seq: page.Seq, Status: page.Status, Epoch: page.Epoch})
	}
}

// apply gives a reader its next frame, and reports whether there may be more.
func (l *lineage) apply(f *follower, frame plane.Frame) bool {
	row, _ := l.stored()
	l.mu.Lock()
	defer l.mu.Unlock()
	pos := f.text.Pos()
	if err := f.text.Apply(frame); err != nil {
		l.wrong = append(l.wrong, "a reader: "+err.Error())
		return false
	}
	switch frame.Kind {
	case plane.KindOpen:
		if frame.From < pos && frame.Epoch > f.epoch {
			l.seen.rewinds.Add(1)
		}
		f.epoch = frame.Epoch
	case plane.KindDurable:
		if frame.Seq > row.Seq {
			l.wrong = append(l.wrong, "a reader was told that more is durable than is stored")
		}
	case plane.KindEnd:
		f.ended = true
	}
	return !f.ended
}
