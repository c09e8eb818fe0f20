package actor

import (
	"time"

	"rillkeep.dev/rillkeep/plane"
)

// While the node's text exceeds its budget (B), a stream that goes on sees to its
// own; what lies idle is given up here: first the streams that have ended, whose
// text the store has, then what live ones need not keep.

// trimPause is the least time between two looks at all live streams.
const trimPause = time.Second

// lingerer is an ended stream that can still be joined.
type lingerer struct {
	a *activation
	s *plane.Stream
}

// press sees to it that there is relief: now, or after a pause if there just was.
// It may be called with any lock held, and costs next to nothing while relief is
// on its way.
func (y *System) press() { y.pressIn(0) }

func (y *System) pressIn(wait time.Duration) {
	if y.pressed.CompareAndSwap(false, true) {
		time.AfterFunc(wait, func() {
			y.pressed.Store(false)
			if wait := y.relieve(); wait > 0 {
				y.pressIn(wait)
			}
		})
	}
}

// relieve gives up what it may, until the budget is kept. If it has looked at the
// live streams only just before, it says how long not to do so again.
func (y *System) relieve() (wait time.Duration) {
	budget := y.cfg.Plane.Budget
	if !budget.Exceeded() || y.draining.Err() != nil {
		return 0
	}
	if !y.relieving.TryLock() { // somebody is at it
		return 0
	}
	defer y.relieving.Unlock()
	y.evict(budget.Limit() - budget.Limit()/8) // room for a while, so that this is rare
	if !budget.Exceeded() {
		return 0
	}
	y.mu.Lock()
	wait = trimPause - time.Since(y.trimmed)
	if wait <= 0 {
		y.trimmed = time.Now()
	}
	y.mu.Unlock()
	if wait > 0 {
		return wait
	}
	for _, s := range y.Streams() {
		s.Trim()
	}
	for _, m := range y.mirrors() {
		m.Trim()
	}
	return 0
}

// evict ends the linger of the streams that ended first until so many bytes are
// left, or none lingers.
func (y *System) evict(down int64) {
	for y.cfg.Plane.Budget.Used() > down {
		y.mu.Lock()
		first := y.lingering.Front()
		if first == nil {
			y.mu.Unlock()
			return
		}
		l := first.Value.(lingerer)
		y.remove(l.a, l.s.ID())
		y.mu.Unlock()
		l.s.Evict()
	}
}

// retire frees the name and the text of a stream whose linger is over.
func (y *System) retire(a *activation, s *plane.Stream) {
	y.mu.Lock()
	y.remove(a, s.ID())
	y.mu.Unlock()
	s.Retire()
}

// remove ends an activation. y.mu is held.
func (y *System) remove(a *activation, id string) {
	if a.retire != nil {
		a.retire.Stop()
	}
	if a.place != nil {
		y.lingering.Remove(a.place)
		a.place = nil
	}
	if y.active[id] == a {
		delete(y.active, id)
	}
}
