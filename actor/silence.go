package actor

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

// A producer that is gone must not leave its stream streaming for ever (L). Which
// streams are to be looked at when is kept in a wheel: a ring of buckets, one a tick,
// each with the streams whose time may be up then. A push does not move its stream,
// it only takes note of the tick; so a live stream is looked at about once in
// Config.ProducerTimeout, and one that was heard of meanwhile is put where its time is
// up now. There is one timer for all of them.

// watch is the wheel. Its methods are safe for concurrent use, and may be called with
// System.mu held. A nil watch watches nothing.
type watch struct {
	clock    *plane.Clock
	tick     time.Duration
	patience int64 // ticks that a producer may be silent, by the clock
	silent   func(silent []*plane.Stream, since int64)

	mu      sync.Mutex // guards below
	buckets []activation
	count   int
	timer   *time.Timer
	turns   bool // the timer is set
}

// looks is how many streams are looked at in a row, with the lock held.
const looks = 64

// newWatch returns a watch that calls silent, with the streams that were not heard of
// since a tick, when that is longer ago than timeout, by no more than a second or an
// eighth of it; and again, should they still be.
func newWatch(timeout time.Duration, silent func([]*plane.Stream, int64)) *watch {
	if timeout < 0 {
		return nil
	}
	tick := max(time.Second, timeout/8) / 4
	// What comes in a tick is taken for come at its end.
	w := &watch{clock: new(plane.Clock), tick: tick, patience: 1 + int64((timeout+tick-1)/tick), silent: silent}
	w.buckets = make([]activation, w.patience+1)
	for i := range w.buckets {
		w.buckets[i].clear()
	}
	w.timer = time.AfterFunc(time.Hour, w.turn)
	w.timer.Stop()
	return w
}

// add watches a stream from now on.
func (w *watch) add(a *activation) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(a, w.clock.Now()+w.patience)
	if !w.turns {
		w.turns = true
		w.timer.Reset(w.tick)
	}
}

// put files a stream for a tick, no further off than the ring is long. w.mu is held.
func (w *watch) put(a *activation, at int64) {
	w.buckets[at%int64(len(w.buckets))].insert(a)
	w.count++
}

// remove watches a stream no more, if it did.
func (w *watch) remove(a *activation) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.after != nil {
		a.unlink()
		w.count--
	}
}

// turn begins the next tick. While nothing is watched there is none.
func (w *watch) turn() {
	var due activation
	due.clear()
	w.mu.Lock()
	now := w.clock.Advance()
	due.takeAll(&w.buckets[now%int64(len(w.buckets))])
	var silent []*plane.Stream
	for looked := 1; due.after != &due; looked++ {
		a := due.after
		a.unlink()
		w.count--
		heard, live := a.stream.Heard()
		if live && heard+w.patience > now {
			w.put(a, heard+w.patience)
		} else if live {
			silent = append(silent, a.stream)
			w.put(a, now+w.patience) // should it go on
		}
		if looked%looks == 0 {
			w.mu.Unlock()
			w.mu.Lock()
		}
	}
	w.turns = w.count > 0
	if w.turns {
		w.timer.Reset(w.tick)
	}
	w.mu.Unlock()
	if len(silent) > 0 {
		w.silent(silent, now-w.patience)
	}
}

// clear makes a a ring of itself alone.
func (a *activation) clear() { a.before, a.after = a, a }

// insert adds b to the ring, at its end if a is its head.
func (a *activation) insert(b *activation) {
	b.before, b.after = a.before, a
	a.before.after, a.before = b, b
}

// unlink takes a out of its ring.
func (a *activation) unlink() {
	a.before.after, a.after.before = a.after, a.before
	a.before, a.after = nil, nil
}

// takeAll makes a, which is alone, the head of b's ring.
func (a *activation) takeAll(b *activation) {
	if b.after == b {
		return
	}
	a.before, a.after = b.before, b.after
	a.before.after, a.after.before = a, a
	b.clear()
}

// interruptSilent seals streams whose producers are gone.
func (y *System) interruptSilent(silent []*plane.Stream, since int64) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.closing.Err() != nil {
		return
	}
	y.tasks.Go(func() {
		_ = each(silent, func(s *plane.Stream) error {
			turn, cancel := context.WithTimeout(y.closing, drainTurn) // one that takes longer goes on
			defer cancel()
			if asked, _ := s.InterruptSilent(turn, since); asked {
				y.log.LogAttrs(turn, slog.LevelInfo, "producer is gone", slog.String("streamId", s.ID()))
			}
			return nil
		})
	})
}
