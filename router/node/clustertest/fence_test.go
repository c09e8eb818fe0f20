package clustertest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/wire"
)

// appendAs sends an append of somebody, and answers its status.
func (w *world) appendAs(at int, id, epoch string, from int64, text string) int {
	w.t.Helper()
	return w.post(at, id, fmt.Sprintf("append?from=%d&epoch=%s", from, epoch), text)
}

// post asks a member for something to be done to a stream.
func (w *world) post(at int, id, what, body string) (status int) {
	w.t.Helper()
	c := w.caller(at, true, nil)
	defer c.close()
	ctx, cancel := context.WithTimeout(w.ctx, callTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost:8080/v1/streams/"+id+"/"+what, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "text/plain")
	resp, err := c.http.RoundTrip(req)
	if err != nil {
		w.t.Errorf("%s by %s: %v", what, w.members[at].name, err)
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// fenced fails the test unless a producer may append nothing, through whom it asks.
func (w *world) fenced(id, epoch string) {
	w.t.Helper()
	for at, m := range w.members {
		if m.dead {
			continue
		}
		if status := w.appendAs(at, id, epoch, w.judge.of(id).row.Seq, "text of nobody"); status != http.StatusConflict {
			w.t.Errorf("an append as %s by %s is answered %d", epoch, m.name, status)
		}
	}
}

// produces starts a producer of its own, which says what it is told to.
func (w *world) produces(id, name string, at int) *client.Producer {
	w.t.Helper()
	p, err := w.client(at, true).Produce(w.ctx, id, client.Producing{Producer: name, Resume: true})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// say pushes deltas, so many in a second.
func (w *world) say(p *client.Producer, deltas []string, rate int) {
	w.t.Helper()
	for _, delta := range deltas {
		if err := p.Push(w.ctx, delta); err != nil {
			w.t.Error(err)
		}
		time.Sleep(time.Second / time.Duration(rate))
	}
}

// Each goes on where the one before was, and that one is told so, and adds nothing.
func TestProducersOfOneNameFenceEachOther(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1, 2, 3}, func(w *world) {
		w.start(3)
		s := newScript(w.rng, 120)
		w.judge.expect("s", s)
		var before *client.Producer
		for round := range 6 {
			p := w.produces("s", "p", round%3)
			if round == 0 {
				w.follow("s")
			}
			if before != nil {
				select {
				case <-before.Done():
				case <-time.After(callTime):
					w.t.Errorf("round %d: the one before was not told", round)
				}
				if err := before.Push(w.ctx, "text of nobody"); !errors.Is(err, plane.ErrFenced) {
					w.t.Errorf("round %d: the one before is told %v", round, err)
				}
				w.fenced("s", fmt.Sprintf("1.%d", round))
			}
			said := s.from(p.Seq())
			w.say(p, said[:min(20, len(said))], 20)
			if round%2 == 0 { // the next one finds text that is not durable
				if err := p.Flush(w.ctx); err != nil {
					w.t.Error(err)
				}
			}
			before = p
		}
		w.say(before, s.from(before.Seq()), 50)
		if sealed, err := before.Close(w.ctx); err != nil || sealed.Status != plane.StatusComplete || sealed.Seq != s.len() {
			w.t.Errorf("sealed %+v, %v", sealed, err)
		}
		w.settle()
		w.taken("s", 0)
		w.unseen()
	})
}

// Who resumes while the other is cut off is the producer, and the other is told so when
// it can be, by whoever has the stream by then.
func TestAProducerThatWasCutOffIsFencedWhereTheStreamHasGone(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]func(w *world, owner *member){
		"it stays": func(*world, *member) {},
		"handed over": func(w *world, owner *member) {
			owner.drain()
		},
		"taken over": func(w *world, owner *member) {
			owner.kill()
			time.Sleep(2 * lease10)
		},
	} {
		t.Run(name, func(t *testing.T) {
			seeds(t, []uint64{1, 2}, func(w *world) {
				w.start(3)
				s, opened := w.opened("s", 200)
				owner, others := w.host("s")
				p := w.produces("s", "p", w.index(others[0]))
				w.say(p, s.deltas[:20], 20)
				move(w, owner)
				w.say(p, s.deltas[20:40], 20)
				w.fenced("s", opened.ProducerEpoch)
				w.say(p, s.deltas[40:], 50)
				if sealed, err := p.Close(w.ctx); err != nil || sealed.Status != plane.StatusComplete || sealed.Seq != s.len() {
					w.t.Errorf("sealed %+v, %v", sealed, err)
				}
				w.settle()
			})
		})
	}
}

// S where the texts differ: what readers had of the first producer's beyond what is
// durable is gone, and nobody has any of it together with the second's.
func TestNoReaderHasAMixtureOfTwoProducersTexts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose    func(*member)
		recover func(w *world, m *member)
	}{
		"the first one's owner is killed":        {(*member).kill, func(*world, *member) {}},
		"the first one's owner is gone":          {(*member).vanish, func(*world, *member) {}},
		"the first one's owner stands still":     {(*member).freeze, func(_ *world, m *member) { m.thaw(true) }},
		"the first one's owner starts again":     {(*member).kill, func(w *world, m *member) { w.again(m) }},
		"the first one's owner lacks the store":  {func(m *member) { m.store.Cut() }, func(_ *world, m *member) { m.store.Heal(true) }},
		"the first one's owner lacks the others": {isolated, func(w *world, m *member) { w.net.Heal(); m.store.Heal(true) }},
	} {
		t.Run(name, func(t *testing.T) {
			seeds(t, []uint64{1, 2, 3}, func(w *world) {
				w.start(3)
				first, owner := w.placed("s", true, 200, 50*time.Millisecond)
				time.Sleep(2 * time.Second)
				// Readers get what is never in the store.
				w.await(w.when("before an append", func(m *member) { m.store.Cut() }), "an append")
				time.Sleep(600 * time.Millisecond)
				c.lose(owner)
				w.net.Cut([]string{w.makers.IP()}, []string{"10.1.0.1", "10.1.0.2", "10.1.0.3"}) // and it is with its owner
				ahead := w.judge.of("s").row.Seq
				had := 0
				for _, r := range w.readers {
					if r.state().reached > ahead {
						had++
					}
				}
				if had == 0 {
					w.t.Fatal("no reader has more than the store")
				}

				other := newScript(w.rng, 60)
				for i := range other.deltas {
					other.deltas[i] = strings.ToUpper("of another " + other.deltas[i])
				}
				other = scriptOf(other.deltas)
				w.judge.heir("s", "q", other)
				w.makers = w.net.Host("10.3.0.2") // elsewhere
				time.Sleep(lease10)               // until then it is told that there is another
				second := w.survivor("s", "q", w.rng.IntN(3), other, 250*time.Millisecond)
				w.until(2*lease10, "another's takeover", func() bool { return len(w.judge.of("s").origins) == 1 })
				for at, m := range w.members {
					if !m.dead {
						w.read("s", at, "auto", w.rng.Int64N(w.judge.of("s").row.Seq+1))
					}
				}
				time.Sleep(3 * time.Second)
				w.net.Heal()
				c.recover(w, owner)
				w.until(settling, "the first one is told", func() bool { return isClosed(first.ended) })
				if !errors.Is(first.err, plane.ErrHeld) && !errors.Is(first.err, plane.ErrFenced) && !errors.Is(first.err, client.ErrBehind) && !errors.Is(first.err, plane.ErrClosed) {
					w.t.Errorf("the first one is told %v", first.err)
				}
				w.survivors = []*survivor{second}
				w.settle()
				w.taken("s", 1)
				mended := 0
				for _, r := range w.readers {
					mended += r.state().mended
				}
				if mended == 0 {
					w.t.Error("no reader was taken back to other text")
				}
			})
		})
	}
}

// isolated is a member that reaches clients, and nobody else.
func isolated(m *member) {
	m.store.Cut()
	for _, other := range m.w.members {
		m.w.net.Cut(m.wireIP(), other.wireIP())
		m.w.net.Cut(m.gossipIP(), other.gossipIP())
	}
}

// Hand-overs change nothing for a producer: each node knows the session of the last.
func TestProducersGoAlongInARollingRestart(t *testing.T) {
	t.Parallel()
	seeds(t, []uint64{1, 2}, func(w *world) {
		w.start(4)
		for i := range 4 {
			w.placed(fmt.Sprint("stream-", i), i%2 == 0, 1200, 50*time.Millisecond)
		}
		for i := range w.members {
			old := w.members[i]
			old.drain()
			w.again(old)
			w.agree(10 * time.Second)
			for _, p := range w.survivors {
				w.fenced(p.id, "1.1") // of before it resumed the first time
			}
		}
		w.settle()
		moves := 0
		for _, p := range w.survivors {
			w.taken(p.id, 0)
			moves += len(w.judge.of(p.id).owners) - 1
		}
		if moves < 3 {
			w.t.Errorf("streams changed hands %d times", moves)
		}
		w.unseen(append(leaving[:len(leaving):len(leaving)], starting)...)
	})
}

// What a producer asked of a node that stood still, and then of another, is done when it
// has gone on there: that must not take the stream away from it.
func TestAProducersOwnResumeThatArrivesLateDoesNotFenceIt(t *testing.T) {
	t.Parallel()
	for way, at := range map[string]int{"by the owner": 2, "by another": 1} {
		t.Run(way, func(t *testing.T) {
			seeds(t, []uint64{1, 2, 3}, func(w *world) {
				w.start(3)
				s := newScript(w.rng, 800)
				w.judge.expect("s", s)
				c := w.caller(0, false, nil)
				defer c.close()
				if _, err := c.client.Open(w.ctx, "s", wire.Open{Producer: "p"}); err != nil {
					w.t.Fatal(err)
				}
				owner, _ := w.host("s")
				first := (w.index(owner) + at) % 3
				w.survivor("s", "p", first, s, 50*time.Millisecond)
				w.follow("s")
				time.Sleep(2 * time.Second)
				late := w.members[(first+1)%3] // whom it asks next
				w.net.Cut([]string{w.makers.IP()}, w.members[first].wireIP())
				late.wire.Freeze()
				time.Sleep(14 * time.Second)
				late.wire.Thaw()
				w.net.Heal()
				w.settle()
			})
		})
	}
}

// opened opens a stream that a script of so many deltas is for, by a call, and follows it.
func (w *world) opened(id string, deltas int) (*script, wire.Opened) {
	w.t.Helper()
	s := newScript(w.rng, deltas)
	w.judge.expect(id, s)
	c := w.caller(0, false, nil)
	defer c.close()
	opened, err := c.client.Open(w.ctx, id, wire.Open{Producer: "p"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.follow(id)
	return s, opened
}
