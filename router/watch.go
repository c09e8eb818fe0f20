package router

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// minLook is the time between two looks of one follower, however fast its stream
// advances.
const minLook = 50 * time.Millisecond

// spread is the time over which all followers look again when changes may have
// been missed.
const spread = time.Second

// watches wake the followers of durable text. A wake costs as much as the stream
// has followers here.
type watches struct {
	mu sync.Mutex // guards below
	of map[string]map[*watch]struct{}
}

func (ws *watches) add(id string) *watch {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := new(watch)
	if ws.of == nil {
		ws.of = make(map[string]map[*watch]struct{})
	}
	if ws.of[id] == nil {
		ws.of[id] = make(map[*watch]struct{})
	}
	ws.of[id][w] = struct{}{}
	return w
}

func (ws *watches) remove(id string, w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.of[id], w)
	if len(ws.of[id]) == 0 {
		delete(ws.of, id)
	}
	w.stop()
}

// wake makes the followers of a stream look again at once.
func (ws *watches) wake(id string) {
	ws.mu.Lock()
	of := slices.Collect(maps.Keys(ws.of[id]))
	ws.mu.Unlock()
	for _, w := range of {
		w.wake(0)
	}
}

// wakeAll makes all followers look again, not all at once.
func (ws *watches) wakeAll() {
	var all []*watch
	ws.mu.Lock()
	for _, of := range ws.of {
		all = slices.AppendSeq(all, maps.Keys(of))
	}
	ws.mu.Unlock()
	for _, w := range all {
		w.wake(rand.N(spread))
	}
}

// watch tells one follower when to look.
type watch struct {
	mu    sync.Mutex    // guards below
	last  time.Time     // when the last look began
	news  bool          // since then: another look is worth it
	rest  chan struct{} // closed when the next look is due; nil if it is, or one is in progress
	due   time.Time
	timer *time.Timer
}

// look says that a look begins: what is news until now, it sees.
func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.news = time.Now(), false
}

// pause returns what to wait for before the next look, which is due after the
// longest pause, or when there is news.
func (w *watch) pause(longest time.Duration) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := make(chan struct{})
	w.rest = rest
	if w.news {
		longest = min(longest, w.soonest())
	}
	w.set(longest)
	return rest
}

// wake makes the next look due after a delay, unless it is sooner.
func (w *watch) wake(delay time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.news = true
	if w.rest == nil {
		return
	}
	if delay = max(delay, w.soonest()); time.Until(w.due) > delay {
		w.set(delay)
	}
}

// soonest is the time until a look may be due. w.mu is held.
func (w *watch) soonest() time.Duration { return time.Until(w.last.Add(minLook)) }

// set makes the next look due. w.mu is held.
func (w *watch) set(delay time.Duration) {
	w.due = time.Now().Add(delay)
	switch {
	case delay <= 0:
		close(w.rest)
		w.rest = nil
	case w.timer == nil:
		w.timer = time.AfterFunc(delay, w.tick)
	default:
		w.timer.Reset(delay)
	}
}

// tick is the timer's. One that was on its way when the timer was set anew finds
// nothing due.
func (w *watch) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rest != nil && !time.Now().Before(w.due) {
		close(w.rest)
		w.rest = nil
	}
}

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = nil
	if w.timer != nil {
		w.timer.Stop()
	}
}
