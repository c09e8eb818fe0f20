package clustertest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// fault is something that goes wrong with a member, and is mended later.
type fault struct {
	name    string
	longest time.Duration
	begin   func(w *world, m *member)
	end     func(w *world, m *member)
}

func nothing(*world, *member) {}

// restarted starts a node anew in place of one that is gone.
func restarted(w *world, m *member) { w.again(m) }

var faults = []fault{
	{"killed", 20 * time.Second, func(_ *world, m *member) { m.kill() }, restarted},
	{"vanished", 20 * time.Second, func(_ *world, m *member) { m.vanish() }, restarted},
	{"drained", 35 * time.Second, func(w *world, m *member) {
		m.dead = true
		w.running.Go(func() { _ = m.tryDrain() })
	}, func(w *world, m *member) {
		m.close()
		w.again(m)
	}},
	{"killed in its drain", 10 * time.Second, func(w *world, m *member) {
		w.running.Go(func() { _ = m.tryDrain() })
		time.Sleep(time.Duration(1000+w.rng.IntN(1000)) * time.Millisecond)
		m.kill()
	}, restarted},
	{"frozen", 60 * time.Second, func(_ *world, m *member) { m.freeze() }, func(w *world, m *member) { m.thaw(true) }},
	{"deaf", 10 * time.Second, func(_ *world, m *member) { m.wire.Freeze() }, func(_ *world, m *member) { m.wire.Thaw() }},
	{"without its store", 60 * time.Second, func(_ *world, m *member) { m.store.Cut() }, func(w *world, m *member) { m.store.Heal(w.rng.IntN(2) == 0) }},
	{"cut off", 20 * time.Second, func(w *world, m *member) {
		for _, other := range w.members {
			w.net.Cut(m.wireIP(), other.wireIP())
			w.net.Cut(m.gossipIP(), other.gossipIP())
		}
	}, func(w *world, _ *member) { w.net.Heal() }},
	{"parted", 20 * time.Second, func(w *world, _ *member) { w.cut(1+w.rng.IntN(4), w.rng.IntN(2) == 0) }, func(w *world, _ *member) { w.net.Heal() }},
	{"cut from another", 15 * time.Second, func(w *world, m *member) {
		w.net.Cut(m.wireIP(), w.members[w.rng.IntN(len(w.members))].wireIP())
	}, func(w *world, _ *member) { w.net.Heal() }},
	{"served by a store that fails", 3 * time.Second, func(w *world, _ *member) {
		w.db.Rows().LoseAcks(w.rng.IntN(6))
		w.db.Rows().FailWrites(w.rng.IntN(6))
		w.db.Rows().FailReads(w.rng.IntN(6))
	}, nothing},
	{"served by a store that is slow", 20 * time.Second, func(w *world, _ *member) {
		w.db.Rows().Latency(time.Duration(w.rng.IntN(1500))*time.Millisecond, time.Duration(w.rng.IntN(3000))*time.Millisecond)
	}, func(w *world, _ *member) { w.db.Rows().Latency(2*time.Millisecond, time.Millisecond) }},
}

// havoc begins and ends faults, so many turns, and then mends all.
func (w *world) havoc(turns int) {
	w.t.Helper()
	begun := map[*member]*fault{}
	var said []string
	for range turns {
		m := w.members[w.rng.IntN(len(w.members))]
		f := &faults[w.rng.IntN(len(faults))]
		if begun[m] == nil && !m.dead && len(begun) < 3 {
			said = append(said, fmt.Sprintf("%.3f %s is %s", time.Since(w.began).Seconds(), m.name, f.name))
			f.begin(w, m)
			begun[m] = f
		}
		time.Sleep(time.Duration(w.rng.Int64N(int64(f.longest))))
		w.more("auto")
		for m, f := range begun {
			if w.rng.IntN(2) == 0 {
				said = append(said, fmt.Sprintf("%.3f %s is no more %s", time.Since(w.began).Seconds(), m.name, f.name))
				f.end(w, m)
				delete(begun, m)
			}
		}
	}
	w.db.Rows().Clear()
	w.db.Rows().Latency(2*time.Millisecond, time.Millisecond)
	w.net.Heal()
	for m, f := range begun {
		f.end(w, m)
	}
	w.t.Log(strings.Join(said, "\n"))
	w.agree(45 * time.Second)
}

func TestInWhateverGoesWrongAllThatIsPromisedHolds(t *testing.T) {
	t.Parallel()
	seeds(t, chaosSeeds, func(w *world) {
		w.start(5)
		w.load(3, 300, 300*time.Millisecond, "auto", "durable")
		w.havoc(6)
		w.settle()
	})
}

// What a client.Producer says is never lost, whatever happens to how many nodes.
func TestInWhateverGoesWrongAllThatIsProducedIsThere(t *testing.T) {
	t.Parallel()
	seeds(t, chaosSeeds, func(w *world) {
		w.start(5)
		for i := range 3 {
			w.survive(fmt.Sprint("stream-", i), fmt.Sprint("p", i), i, 400+w.rng.IntN(400), 250*time.Millisecond)
		}
		for _, p := range w.survivors {
			w.open(p.id)
			w.follow(p.id)
		}
		w.havoc(6)
		w.settle()
		for _, p := range w.survivors {
			w.taken(p.id, len(w.judge.of(p.id).origins))
		}
	})
}
