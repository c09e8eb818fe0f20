package node

import (
	"testing"
	"time"

	"rillkeep.dev/rillkeep/ring"
)

// scene is a presence in a time of its own.
type scene struct {
	t  *testing.T
	p  presence
	at time.Time
}

func (s *scene) look(held bool, next ring.State, wait time.Duration) {
	s.t.Helper()
	if n, w := s.p.look(held, s.at); n != next || w != wait {
		s.t.Errorf("lease held %v: %v and %v, want %v and %v", held, n, w, next, wait)
	}
}

// loss is a loss of the lease, which is back at once, and the node a while later.
func (s *scene) loss(away time.Duration) {
	s.t.Helper()
	s.look(false, ring.Waiting, 0)
	s.look(false, 0, 0)
	if away > 0 {
		s.look(true, 0, away)
		s.at = s.at.Add(away - 1)
		s.look(true, 0, 1)
		s.at = s.at.Add(1)
	}
	s.look(true, ring.Active, 0)
	s.look(true, 0, 0)
}

func TestANodeStaysAwayTheLongerTheMoreOftenItLosesItsLease(t *testing.T) {
	s := &scene{t, presence{active: true}, time.Now()}
	s.look(true, 0, 0)
	for range 2 { // what it did long ago is forgotten
		for _, away := range []time.Duration{0, firstAway, 2 * firstAway, 4 * firstAway, 8 * firstAway, maxAway, maxAway} {
			s.loss(away)
			s.at = s.at.Add(steadyTime)
		}
		s.at = s.at.Add(1)
	}
}

func TestALeaseThatIsLostWhileTheNodeIsAwayBeginsTheWaitAnew(t *testing.T) {
	s := &scene{t, presence{active: true}, time.Now()}
	s.loss(0)
	s.look(false, ring.Waiting, 0)
	s.look(true, 0, firstAway)
	s.at = s.at.Add(firstAway)
	s.look(false, 0, 0)
	s.at = s.at.Add(time.Hour)
	s.look(true, 0, firstAway)
}

func TestANodeThatCouldNotComeBackTriesAgain(t *testing.T) {
	s := &scene{t, presence{active: true}, time.Now()}
	s.look(false, ring.Waiting, 0)
	s.look(true, ring.Active, 0)
	if wait := s.p.stay(s.at); wait != firstAway {
		t.Errorf("it waits %v", wait)
	}
	s.look(true, 0, firstAway)
	s.at = s.at.Add(firstAway)
	s.look(true, ring.Active, 0)
}
