package clustertest

import (
	"strings"
	"testing"
	"time"
)

// ways are how a producer speaks to the owner of its stream.
var ways = map[string]bool{"at the owner": true, "through another": false}

// The points of an append, and of the end, at which the owner is killed, and how often
// the stream is taken over then.
var points = []struct {
	moment string
	taken  int
}{
	{"a delta is sent", 1},
	{"a delta is forwarded", 1},
	{"a reader has text", 1},
	{"before an append", 1},
	{"after an append", 1},
	{"an append is acknowledged", 1},
	{"a producer is told", 1},
	{"before a seal", 1},
	{"after a seal", 0},
	{"a seal is answered", 0},
}

func TestWhereverInAnAppendTheOwnerIsKilledTheWholeTextIsThere(t *testing.T) {
	t.Parallel()
	for _, point := range points {
		for way, direct := range ways {
			if direct && point.moment == "a delta is forwarded" {
				continue
			}
			t.Run(point.moment+", "+way, func(t *testing.T) {
				seeds(t, []uint64{1, 2}, func(w *world) {
					w.start(3)
					_, owner := w.placed("s", direct, 60, 50*time.Millisecond)
					time.Sleep(time.Duration(1000+w.rng.IntN(750)) * time.Millisecond)
					w.await(w.when(point.moment, func(*member) { owner.die() }), point.moment)
					owner.bury()
					w.settle()
					w.taken("s", point.taken)
				})
			})
		}
	}
}

// taken fails the test unless a stream was opened once, and taken over so often.
func (w *world) taken(id string, times int) {
	w.t.Helper()
	if h := w.judge.of(id); h.opens != 1 || len(h.origins) != times {
		w.t.Errorf("%s: opened %d times, taken over at %v, by %v", id, h.opens, h.origins, h.owners)
	}
}

// The same of an open, whose answer the producer never gets.
func TestWhereverInAnOpenTheOwnerIsKilledTheWholeTextIsThere(t *testing.T) {
	t.Parallel()
	for moment, taken := range map[string]int{"before an open": 0, "after an open": 1, "an open is answered": 1} {
		t.Run(moment, func(t *testing.T) {
			seeds(t, []uint64{1, 2, 3}, func(w *world) {
				w.start(3)
				came := w.when(moment, (*member).die)
				w.survive("s", "p", 0, 20, 50*time.Millisecond)
				w.await(came, moment).bury()
				w.open("s")
				w.follow("s")
				w.settle()
				w.taken("s", taken)
			})
		})
	}
}

// The same of a takeover: the next one is of the stream as it was, or of what has begun
// by then.
func TestWhereverInATakeoverItsNodeIsKilledTheWholeTextIsThere(t *testing.T) {
	t.Parallel()
	for moment, taken := range map[string]int{"before a takeover": 1, "after a takeover": 2, "an open is answered": 2} {
		t.Run(moment, func(t *testing.T) {
			seeds(t, []uint64{1, 2}, func(w *world) {
				w.start(4)
				_, owner := w.placed("s", false, 60, 50*time.Millisecond)
				time.Sleep(2 * time.Second)
				w.await(w.when("before an append", func(*member) { owner.die() }), "an append")
				owner.bury()
				w.await(w.when(moment, (*member).die), moment).bury()
				w.settle()
				w.taken("s", taken)
			})
		})
	}
}

// Nobody waits for a lease of which the node's own successor knows that it is over.
func TestStreamsOfANodeThatIsBackAtOnceAreTakenOverAtOnce(t *testing.T) {
	t.Parallel()
	for way, direct := range ways {
		t.Run(way, func(t *testing.T) {
			seeds(t, []uint64{1, 2}, func(w *world) {
				w.start(3)
				p, owner := w.placed("s", direct, 160, 50*time.Millisecond)
				time.Sleep(2 * time.Second)
				w.await(w.when("before an append", func(*member) { owner.die() }), "an append")
				owner.bury()
				time.Sleep(10 * time.Millisecond) // its machine says goodbye
				w.again(owner)
				defer func() { w.t.Log(p.lost, w.log.served("s")) }()
				w.until(lease10/2, "it is taken over", func() bool { return len(w.judge.of("s").origins) == 1 })
				w.settle()
				w.taken("s", 1)
				if took := len(p.lost); took > 12 {
					w.t.Errorf("it tried %d times: %v", took, p.lost)
				}
			})
		})
	}
}

// The ring proposes one that does not answer, though gossip says that it is well: the
// row decides, and any other will do.
func TestAnOrphanWhoseNextOwnerIsDeafIsTakenOverByAnother(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int{"one is deaf": 0, "the other is deaf": 1} {
		t.Run(name, func(t *testing.T) {
			seeds(t, []uint64{1, 2, 3}, func(w *world) {
				w.start(3)
				_, owner := w.placed("s", true, 1600, 50*time.Millisecond)
				time.Sleep(2 * time.Second)
				_, others := w.host("s")
				owner.kill()
				others[n].wire.Freeze()
				w.until(3*lease10, "it is taken over", func() bool { return len(w.judge.of("s").origins) == 1 })
				if at, _ := w.host("s"); at != others[1-n] {
					w.t.Errorf("it is at %s", at.name)
				}
				time.Sleep(10 * time.Second)
				others[n].wire.Thaw()
				w.settle()
				w.taken("s", 1)
			})
		})
	}
}

// What is durable ends within a delta, which the producer has whole: it says the rest.
func TestAnOwnerThatIsKilledWithinALongDeltaCostsNothing(t *testing.T) {
	t.Parallel()
	for way, direct := range ways {
		t.Run(way, func(t *testing.T) {
			seeds(t, []uint64{1, 2}, func(w *world) {
				w.start(3)
				came := w.when("after an append", (*member).die)
				s := newScript(w.rng, 4)
				for i := range s.deltas {
					s.deltas[i] = strings.Repeat(s.deltas[i]+"𝒳y", 300_000/len(s.deltas[i]))
				}
				p, _ := w.saying("s", direct, scriptOf(s.deltas), 50*time.Millisecond)
				w.await(came, "an append").bury()
				w.settle()
				w.taken("s", 1)
				if at := w.judge.of("s").origins; len(p.script.from(at[0])) == 0 || p.script.starts(at[0]) {
					w.t.Errorf("what was durable ended at %v, with a delta", at)
				}
			})
		})
	}
}
