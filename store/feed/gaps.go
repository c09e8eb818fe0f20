package feed

import "time"

// maxProducers is how many producers' numbers are remembered. Of one that was
// forgotten the next message looks like a gap, which is the safe side.
const maxProducers = 1024

// gaps finds out from the numbers of messages whether some were missed.
type gaps struct {
	settle time.Duration // after which all producers that run are known
	since  time.Time     // when all was forgotten
	of     map[string]*heard
}

// heard is the newest of a producer's.
type heard struct {
	seq int64
	at  time.Time
}

// arrival is what a message's number means.
type arrival int

const (
	inOrder  arrival = iota // or it has no number: nothing can be told from it
	late                    // it, or a newer one, came before
	afterGap                // some before it were missed
)

func (g *gaps) forget() {
	g.of, g.since = make(map[string]*heard), time.Now()
}

// take judges a message's number and remembers it. A beat has the number of the
// message before it.
//
// The first message of a producer may have any number while the listening has
// just begun. Later all producers are known, since they beat: an unknown one has
// just started, and its first number is 1.
func (g *gaps) take(producer string, seq int64, beat bool) arrival {
	if producer == "" || seq < 1 {
		return inOrder
	}
	now := time.Now()
	p := g.of[producer]
	if p == nil {
		g.makeRoom()
		g.of[producer] = &heard{seq, now}
		if seq > 1 && now.Sub(g.since) >= g.settle {
			return afterGap
		}
		return inOrder
	}
	expected := p.seq + 1
	if beat {
		expected = p.seq
	}
	p.seq, p.at = max(p.seq, seq), now
	switch {
	case seq > expected:
		return afterGap
	case seq < expected:
		return late
	default:
		return inOrder
	}
}

// makeRoom forgets the producer that was not heard for the longest time, if
// there are too many.
func (g *gaps) makeRoom() {
	if len(g.of) < maxProducers {
		return
	}
	var oldest string
	for id, p := range g.of {
		if oldest == "" || p.at.Before(g.of[oldest].at) {
			oldest = id
		}
	}
	delete(g.of, oldest)
}
