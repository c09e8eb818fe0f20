package clustertest

import (
	"errors"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/router/wire"
)

// What comes between a producer and its owner only: there is another way, and the stream
// stays where it is.
func TestAProducerThatIsCutFromItsOwnerGoesOnThroughAnotherNode(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(w *world, owner string){
		"both ways":                   func(w *world, owner string) { w.net.Cut([]string{w.makers.IP()}, []string{owner}) },
		"what it says":                func(w *world, owner string) { w.net.CutOneWay([]string{w.makers.IP()}, []string{owner}) },
		"what it is told":             func(w *world, owner string) { w.net.CutOneWay([]string{owner}, []string{w.makers.IP()}) },
		"as it is told what has been": func(w *world, owner string) {},
	} {
		t.Run(name, func(t *testing.T) {
			seeds(t, []uint64{1, 2}, func(w *world) {
				w.start(3)
				p, owner := w.placed("s", true, 400, 50*time.Millisecond)
				time.Sleep(2 * time.Second)
				if name == "as it is told what has been" {
					w.await(w.when("an append is acknowledged", func(*member) {
						w.net.Cut([]string{w.makers.IP()}, []string{owner.wire.IP()})
					}), "an acknowledgement")
				} else {
					cut(w, owner.wire.IP())
				}
				time.Sleep(14 * time.Second)
				w.net.Heal()
				w.settle()
				w.taken("s", 0)
				w.unseen()
				// Whom nobody hears is told all the same that its node is there.
				if len(p.lost) == 0 && name != "what it says" || len(w.judge.of("s").owners) != 1 {
					w.t.Errorf("it lost %v, and the stream was at %v", p.lost, w.judge.of("s").owners)
				}
			})
		})
	}
}

// An owner that can't write is one that the others take for dead: its producers go
// on with another before their stream is swept, though they reach it.
func TestAnOwnerThatIsCutFromItsStoreLosesItsStreamToItsProducer(t *testing.T) {
	t.Parallel()
	for way, direct := range ways {
		for name, late := range map[string]bool{"what it had to write is lost": false, "what it had to write comes late": true} {
			t.Run(way+", "+name, func(t *testing.T) {
				seeds(t, []uint64{1, 2}, func(w *world) {
					w.start(3)
					_, owner := w.placed("s", direct, 1200, 50*time.Millisecond)
					time.Sleep(2 * time.Second)
					w.await(w.when("before an append", func(m *member) { m.store.Cut() }), "an append")
					w.until(lease10+10*time.Second, "it is taken over", func() bool { return len(w.judge.of("s").origins) == 1 })
					time.Sleep(3 * time.Second)
					owner.store.Heal(late)
					w.settle()
					w.taken("s", 1)
				})
			})
		}
	}
}

// The same of one that is cut from all but its producer: it can't know better.
func TestAnOwnerThatIsCutFromAllLosesItsStreamToItsProducer(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1, 2, 3}, func(w *world) {
		w.start(3)
		_, owner := w.placed("s", true, 1200, 50*time.Millisecond)
		time.Sleep(2 * time.Second)
		w.await(w.when("before an append", isolated), "an append")
		w.until(lease10+10*time.Second, "it is taken over", func() bool { return len(w.judge.of("s").origins) == 1 })
		time.Sleep(3 * time.Second)
		w.net.Heal()
		owner.store.Heal(true)
		w.agree(30 * time.Second)
		w.settle()
		w.taken("s", 1)
	})
}

// It can write, and so it stays the owner: whoever reaches it goes on.
func TestAnOwnerThatIsCutFromTheOthersKeepsItsStream(t *testing.T) {
	t.Parallel()
	for way, direct := range ways {
		t.Run(way, func(t *testing.T) {
			seeds(t, []uint64{1, 2}, func(w *world) {
				w.start(4)
				_, owner := w.placed("s", direct, 800, 50*time.Millisecond)
				time.Sleep(2 * time.Second)
				for _, other := range w.members {
					w.net.Cut(owner.wireIP(), other.wireIP())
					w.net.Cut(owner.gossipIP(), other.gossipIP())
				}
				before := w.judge.of("s").row.Seq
				time.Sleep(30 * time.Second)
				if h := w.judge.of("s"); h.row.Seq == before || h.row.Status.Ended() {
					w.t.Errorf("while it is cut off the row is %s, and went from %d to %d", h.row.Status, before, h.row.Seq)
				}
				w.net.Heal()
				w.agree(30 * time.Second)
				w.settle()
				w.taken("s", 0)
				w.unseen("not reached", "silent", "closed before")
			})
		})
	}
}

// The old owner runs again, with what it had to write and what came for it meanwhile:
// it writes nothing, which the judge sees (O), and its readers are told.
func TestAnOwnerThatComesBackAfterATakeoverWritesNothing(t *testing.T) {
	t.Parallel()
	for way, direct := range ways {
		for name, pause := range map[string]time.Duration{"as the stream goes on": 20 * time.Second, "when the stream has ended": 2 * time.Minute} {
			t.Run(way+", "+name, func(t *testing.T) {
				seeds(t, []uint64{1, 2}, func(w *world) {
					w.start(3)
					_, owner := w.placed("s", direct, 800, 50*time.Millisecond)
					time.Sleep(2 * time.Second)
					owner.store.Freeze() // what it writes waits
					time.Sleep(time.Second)
					owner.freeze()
					time.Sleep(pause)
					w.taken("s", 1)
					if ended := w.judge.of("s").row.Status.Ended(); ended != (pause > time.Minute) {
						w.t.Errorf("it has ended: %v", ended)
					}
					owner.thaw(true)
					thawed := time.Now()
					w.agree(30 * time.Second)
					for at := range w.members {
						w.read("s", at, "auto", 0)
					}
					w.settle()
					w.taken("s", 1)
					late := 0
					for _, c := range w.db.Rows().Calls() {
						if c.Kind == "append" && c.At.After(thawed) && c.From < w.judge.of("s").origins[0]+1 {
							late++
						}
					}
					if late == 0 {
						w.t.Error("it had nothing to write")
					}
				})
			})
		}
	}
}

// It has a lease again, and has yet to look which streams are still its own: nobody
// resumes there what another has.
func TestAnOwnerThatComesBackAnswersNoResumeOfWhatItHasLost(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1, 2, 3}, func(w *world) {
		w.start(3)
		s := newScript(w.rng, 40)
		w.judge.expect("s", s)
		p := w.produces("s", "p", 0)
		w.follow("s")
		w.say(p, s.deltas[:20], 20)
		if err := p.Flush(w.ctx); err != nil {
			w.t.Error(err)
		}
		owner, _ := w.host("s")
		owner.freeze() // it has nothing to write that would tell it
		w.until(3*lease10, "it is taken over", func() bool { return len(w.judge.of("s").origins) == 1 })
		looks := w.when("before a read", func(*member) { time.Sleep(10 * time.Second) })
		owner.thaw(true)
		time.Sleep(4 * time.Second) // its lease is renewed
		c := w.caller(w.index(owner), true, nil)
		if opened, err := c.client.Open(w.ctx, "s", wire.Open{Producer: "p", Resume: true}); err == nil || !errors.Is(err, wire.ErrUnavailable) {
			w.t.Errorf("it answered %+v, %v", opened, err)
		}
		c.close()
		if at := w.await(looks, "a look at the row"); at != owner {
			w.t.Errorf("%s looks", at.name)
		}
		w.say(p, s.deltas[20:], 20)
		if sealed, err := p.Close(w.ctx); err != nil || sealed.Seq != s.len() {
			w.t.Errorf("sealed %+v, %v", sealed, err)
		}
		w.settle()
		w.taken("s", 1)
	})
}

// Who was asked to take a stream over and then stood still takes nothing from who did it
// meanwhile, be that one dead by then.
func TestATakeoverThatArrivesLateTakesNothing(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1, 2, 3}, func(w *world) {
		w.start(4)
		_, owner := w.placed("s", false, 600, 100*time.Millisecond)
		time.Sleep(2 * time.Second)
		owner.kill()
		first := w.await(w.when("before a takeover", func(m *member) { m.freeze() }), "a takeover")
		second := w.await(w.when("after a takeover", func(*member) {}), "another's takeover")
		if second == first {
			w.t.Fatal("it was not frozen")
		}
		time.Sleep(2 * time.Second)
		took := w.judge.of("s")
		w.net.Cut([]string{w.makers.IP()}, []string{"10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4"})
		second.kill()
		time.Sleep(lease10 + 5*time.Second) // it is an orphan, and nobody's yet
		first.thaw(true)
		time.Sleep(2 * time.Second)
		if h := w.judge.of("s"); h.row.Token != took.row.Token {
			w.t.Errorf("the row was %s, and is %s", took.row.Token, h.row.Token)
		}
		w.net.Heal()
		w.settle()
		w.taken("s", 2)
	})
}

// Its answer is lost, as are those to all that asks again: the row is that node's, and
// the stream is not there until it has been given back.
func TestATakeoverOfWhichItsNodeDoesNotHearCostsNothing(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1, 2, 3}, func(w *world) {
		w.start(3)
		_, owner := w.placed("s", true, 600, 50*time.Millisecond)
		time.Sleep(2 * time.Second)
		owner.kill()
		lost := w.when("after a takeover", func(*member) { w.db.Rows().FailReads(12); w.db.Rows().FailWrites(3) })
		w.await(lost, "a takeover")
		time.Sleep(10 * time.Second)
		w.db.Rows().Clear()
		w.settle()
		if h := w.judge.of("s"); len(h.origins) == 0 || h.opens != 1 {
			w.t.Errorf("it was opened %d times, and taken over at %v", h.opens, h.origins)
		}
	})
}
