package clustertest

import (
	"context"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// Report 61, abort-handler-panic.
func TestReadersAndOwnersThatDieLeaveNoTrace(t *testing.T) {
	t.Parallel()
	const crowd, closed = 1000, 100
	c := open(t, 3)
	p, owner, others := begun(c, "m1")
	far := others[0]
	base := far.metric("process_open_fds")
	ids := owned(c, owner, 2)
	second := &producer{c: c, text: newText(ids[0], 20), pause: 20 * time.Millisecond}
	var reading sync.WaitGroup
	for range crowd - closed { // of whom most break off in mid-stream
		r := &reader{c: c, text: p.text, only: far}
		mine, leave := context.WithCancel(t.Context())
		if rand.IntN(10) > 0 {
			time.AfterFunc(rand.N(4*time.Second), leave)
		}
		reading.Go(func() {
			defer leave()
			if err := r.run(mine); mine.Err() == nil && (err != nil || r.end.status != plane.StatusInterrupted) {
				t.Errorf("a reader has its end as %+v, %v", r.end, err)
			}
		})
	}
	for range closed { // and some have an owner that ends their stream on purpose
		r := &reader{c: c, text: second.text, only: far}
		reading.Go(func() {
			if err := r.run(t.Context()); err != nil || r.end.status != plane.StatusComplete || r.returned > 0 {
				t.Errorf("a reader has its end as %+v, %v, having come back %d times", r.end, err, r.returned)
			}
		})
	}
	pumping := far.pump(ids[1]) // which breaks, too
	if err := second.speak(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := second.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.next, p.pause = 5, 80*time.Millisecond
	if err := p.speak(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	owner.kill()
	if err := <-pumping; err == nil {
		t.Error("a pump to an owner that died went well")
	}
	reading.Wait()
	c.await("none left", func() bool { return far.metric("rillkeep_readers") == 0 })
	c.await("no connection half open", func() bool { return far.metric("process_open_fds") < base+50 })
	for _, n := range others {
		for _, word := range []string{"goroutine ", "panic", "superfluous", `"level":"ERROR"`} {
			if strings.Contains(n.run().Err.String(), word) {
				t.Errorf("%s said %q: %s", n.name, word, n.run().Err.Last(4000))
			}
		}
	}
}

// pump pumps through the node until that breaks.
func (n *node) pump(id string) <-chan error {
	_, cl := n.place()
	over := make(chan error, 1)
	go func() {
		_, err := cl.Pump(n.c.Context(), id, 0, func(ctx context.Context) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				for yield("text ", nil) {
					select {
					case <-time.After(20 * time.Millisecond):
					case <-ctx.Done():
						return
					}
				}
			}
		}, nil)
		over <- err
	}()
	return over
}

// herd is how many readers come back at once, should the system let the test and a node
// have a connection for each of them.
func herd(t *testing.T) int {
	t.Helper()
	const whole, others = 5000, 500
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil { // which Go has raised as far as it may
		t.Fatal(err)
	}
	many := min(whole, int(files.Cur)-others)
	if many < whole {
		t.Logf("%d readers, not %d: a process may have %d files open", many, whole, files.Cur)
	}
	return many
}

// counted puts a proxy between the nodes and their database, which counts how often they
// read a stream's row.
func (c *cluster) counted() (reads *atomic.Int64) {
	c.Helper()
	reads = new(atomic.Int64)
	proxy := pgtest.NewProxy(c, c.database)
	row := pgtest.Words("select", ".streams where id = $1")
	proxy.On(func(sql string) bool {
		if row(sql) && !pgtest.Writes(sql) {
			reads.Add(1)
		}
		return false
	}, pgtest.CutBefore)
	for _, n := range c.nodes {
		n.args = append(n.args, "--database", proxy.URL())
	}
	return reads
}

// Report 90, reconnect-herd.
func TestAHerdOfReadersThatComesBackIsOneAttach(t *testing.T) {
	const soon = 30 * time.Second
	c := assemble(t, 3)
	reads := c.counted()
	c.start()
	p, owner, others := begun(c, "m1")
	dying, rest := others[0], others[1]
	reading, ctx := errgroup.WithContext(c.within(3 * patience))
	readers := make([]*reader, herd(t))
	for i := range readers {
		r := &reader{c: c, text: p.text, waits: true}
		for c.through(r.attempt) != dying || c.through(r.attempt+1) != rest && c.through(r.attempt+2) != rest {
			r.attempt++
		}
		readers[i] = r
		reading.Go(func() error { return r.run(ctx) })
	}
	at := func(seq int64) func() bool {
		return func() bool {
			for _, r := range readers {
				if r.at.Load() < seq {
					return ctx.Err() != nil
				}
			}
			return true
		}
	}
	began := time.Now()
	c.await("the herd", at(p.pos))
	t.Logf("%d readers were there after %v", len(readers), time.Since(began).Round(time.Millisecond))
	dying.kill()
	killed := time.Now()
	if err := p.append(t.Context(), p.text.ends[8]); err != nil {
		t.Fatal(err)
	}
	c.await("the herd elsewhere", at(p.pos))
	took := time.Since(killed)
	t.Logf("all were back %v after the kill: %.0f a second", took.Round(time.Millisecond), float64(len(readers))/took.Seconds())
	if took > soon {
		t.Errorf("it took %v", took)
	}
	if n := rest.metric("rillkeep_relay_attaches_total"); n > 1 {
		t.Errorf("%v attaches for one stream", n)
	}
	c.await("a ring of those who live", func() bool {
		_, cl := owner.place()
		seen, err := cl.Cluster(t.Context())
		if err != nil {
			return false
		}
		for _, m := range seen.Members {
			if dying.is(m.Name) {
				return false
			}
		}
		return len(seen.Members) == 2
	})
	for line := range strings.Lines(owner.run().Err.String() + rest.run().Err.String()) {
		if strings.Contains(line, "ring: member gone") && !strings.Contains(line, `"`+dying.name+"/") {
			t.Errorf("who lives was taken for dead: %s", line)
		}
	}
	t.Logf("rows were read %d times", reads.Load())
	if most := int64(len(readers)) / 50; reads.Load() == 0 || reads.Load() > most {
		t.Errorf("rows were read %d times for %d readers of one stream, want %d at the most", reads.Load(), len(readers), most)
	}
	if err := p.close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := reading.Wait(); err != nil {
		t.Error(err)
	}
}
