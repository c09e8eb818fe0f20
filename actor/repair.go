package actor

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

// What the store did not take must not stay undone (L): no row says streaming
// because a store was down for a while. Repairs go on, further and further
// apart, until the store answers or the system is closed.
const maxRepair = 30 * time.Second

// next is the pause after one of d.
func next(d time.Duration) time.Duration { return max(d, min(2*d, maxRepair)) }

// jitter keeps the repairs of many streams from coming at once.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2) }

// resealLater writes the end of a stream whose seal did not reach the store. Its
// name is held until then: whoever opened it meanwhile would take the row over
// with other text in the same epoch. y.mu is held.
func (y *System) resealLater(a *activation, s *plane.Stream, delay time.Duration) {
	a.retire = time.AfterFunc(jitter(delay), func() {
		err := s.Reseal()
		y.mu.Lock()
		defer y.mu.Unlock()
		switch {
		case y.active[s.ID()] != a:
		case errors.Is(err, plane.ErrFenced):
			y.remove(a, s.ID())
			s.Retire()
		case err != nil:
			y.resealLater(a, s, next(delay))
		default:
			y.retireLater(a, s)
		}
	})
}

// giveBackLater gives back the claim of an open that failed without an answer,
// unless the name is opened again, which takes the claim over.
func (y *System) giveBackLater(claim plane.Claim, delay time.Duration) {
	time.AfterFunc(jitter(delay), func() {
		a, err := y.reserve(claim.ID, false)
		if err != nil {
			if errors.Is(err, plane.ErrFull) {
				y.giveBackLater(claim, next(delay))
			}
			return
		}
		defer y.opening.Done()
		err = plane.GiveBack(context.Background(), y.cfg.Plane, claim)
		y.mu.Lock()
		delete(y.active, claim.ID)
		y.live--
		close(a.decided)
		y.mu.Unlock()
		if err != nil {
			y.giveBackLater(claim, next(delay))
		}
	})
}
