package actor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// The statement of an open or an adoption that failed without an answer may still be on its way
// to the database, and make its claim long after a look found none.
const (
	lateness = time.Minute // how long after its deadline
	maxLate  = 4096        // how many opens and adoptions are waited for; of others the first look is the last
)

// unanswered is the claim of an open, the adoption of a stream or its takeover, that
// failed without an answer.
type unanswered struct {
	claim    plane.Claim
	adopted  bool      // or taken over
	tookOver bool      // whatever a look finds, the statement may come yet
	until    time.Time // then a claim that is not there never will be
	stray    bool
}

// giveBack gives back what this node may hold of a stream that it does not host,
// unless the name is opened or adopted again, which takes the claim over.
func (y *System) giveBack(u unanswered) {
	deadline := cmp.Or(y.cfg.Plane.Policy, plane.DefaultPolicy()).StoreTimeout
	u.until = time.Now().Add(deadline + lateness)
	if u.adopted {
		y.returning.Store(u.claim.ID, true)
	}
	if y.unanswered.Add(1) > maxLate {
		u.until = time.Now()
	}
	y.giveBackLater(u, y.cfg.Repair)
}

func (y *System) giveBackLater(u unanswered, delay time.Duration) {
	time.AfterFunc(jitter(delay), func() {
		if y.tryGiveBack(u) {
			y.unanswered.Add(-1)
			y.returning.Delete(u.claim.ID)
			return
		}
		y.giveBackLater(u, next(delay))
	})
}

// Stray says that a row has this node's token, as who asked for its stream here has
// found. Is there no such stream, the row is given back: sealed interrupted, with what
// it holds (L). So it is where the store went back behind a hand-over: this node need
// not have noticed, and the row would be its own for as long as it lives. The one that
// has had the stream since can't write it (O); what was durable before the hand-over
// is a prefix of what it had (P). One that is being put back, after an adoption or a
// takeover without an answer, is nobody's soon, and goes on: nothing of it was live here.
func (y *System) Stray(id string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if _, returning := y.returning.Load(id); returning || y.active[id] != nil || y.strays[id] || len(y.strays) >= maxLate {
		return
	}
	y.strays[id] = true
	y.giveBack(unanswered{claim: plane.Claim{ID: id, Node: y.cfg.Node}, stray: true})
}

func (y *System) forgetStray(u unanswered) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if u.stray {
		delete(y.strays, u.claim.ID)
	}
}

// tryGiveBack reports whether nothing is left to do.
func (y *System) tryGiveBack(u unanswered) bool {
	late := !time.Now().Before(u.until)
	y.mu.Lock()
	a, err := y.reserve(u.claim.ID, false, false)
	y.mu.Unlock()
	if err != nil && !errors.Is(err, plane.ErrFull) {
		y.forgetStray(u)
		return true
	}
	if err != nil {
		return false
	}
	defer y.opening.Done()
	var settled bool
	if u.adopted {
		settled, err = plane.PutBack(context.Background(), y.cfg.Plane, u.claim.ID, u.claim.Node)
	} else {
		settled, err = plane.GiveBack(context.Background(), y.cfg.Plane, u.claim)
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if u.adopted && err != nil {
		y.keepAway(u.claim.ID)
	}
	delete(y.active, u.claim.ID)
	y.live--
	close(a.decided)
	done := settled && !u.tookOver || err == nil && (late || u.stray)
	switch {
	case done:
		delete(y.unsure, u.claim.ID)
		delete(y.strays, u.claim.ID)
	case errors.Is(err, plane.ErrNoAnswer):
		// The seal may still be on its way. Whoever opened the stream meanwhile would
		// have its claim, and its token: it would end that.
		y.unsure[u.claim.ID] = true
	}
	return done
}

// Verify has every live stream look whether its row is still its own, after a time
// in which others may have taken this node for dead; see plane.Stream.Verify. It
// reports the streams that could not find out.
func (y *System) Verify(ctx context.Context) error {
	return each(y.Streams(), func(s *plane.Stream) error {
		if err := s.Verify(ctx); err != nil && !errors.Is(err, plane.ErrFenced) {
			return fmt.Errorf("%q: %w", s.ID(), err)
		}
		return nil
	})
}
