package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/cmd/internal/measure"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/postgres"
	"rillkeep.dev/rillkeep/store/postgres/pgtest/server"
)

// product is many streams at the pace of a language model, under the default
// policy.
type product struct {
	streams, rate int
	length        time.Duration

	times       []pushes
	checkpoints atomic.Int64
	failed      atomic.Int64
	longest     atomic.Int64 // from produced to durable, in nanoseconds
}

// delta is what a producer pushes.
const delta = "word"

// remembered is how many deltas back a stream's times reach.
const remembered = 512

// pushes are the times of a stream's newest deltas.
type pushes struct {
	mu sync.Mutex
	at [remembered]int64
	n  int
}

func (p *product) run(ctx context.Context, server *server.Server) error {
	s, err := postgres.Open(ctx, server.URL(), postgres.Config{})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close(context.WithoutCancel(ctx)) }()
	actors, err := actor.New(actor.Config{
		Plane: plane.Config{Store: s, Hooks: plane.Hooks{Checkpoint: p.durable}}, Node: "n1/boot1",
		Authorize: func(context.Context, actor.Access) (bool, error) { return true, nil },
	})
	if err != nil {
		return err
	}
	p.times = make([]pushes, p.streams)
	streams, err := p.open(ctx, actors)
	if err != nil {
		return err
	}
	postmaster, err := postmasterOf(ctx, server.URL())
	if err != nil {
		return err
	}
	own, theirs, err := cpu(postmaster)
	if err != nil {
		return err
	}
	began := time.Now()
	pushed, err := p.produce(ctx, streams)
	if err != nil {
		return err
	}
	took := time.Since(began)
	ownAfter, theirsAfter, err := cpu(postmaster)
	if err != nil {
		return err
	}
	cores := float64(runtime.NumCPU())
	fmt.Printf("streams=%d deltas/s=%.0f checkpoints/s=%.0f failed=%d longest from produced to durable=%v\n",
		p.streams, float64(pushed)/took.Seconds(), float64(p.checkpoints.Load())/took.Seconds(), p.failed.Load(),
		time.Duration(p.longest.Load()).Round(time.Millisecond))
	fmt.Printf("share of %d cores: rillkeep and its producers=%.2f postgres=%.2f\n", runtime.NumCPU(),
		(ownAfter-own).Seconds()/took.Seconds()/cores, (theirsAfter-theirs).Seconds()/took.Seconds()/cores)
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return actors.Drain(drain)
}

func (p *product) open(ctx context.Context, actors *actor.System) ([]*plane.Stream, error) {
	streams := make([]*plane.Stream, p.streams)
	for n := range streams {
		s, err := actors.Open(ctx, plane.Claim{ID: fmt.Sprint(n)})
		if err != nil {
			return nil, err
		}
		streams[n] = s
	}
	return streams, nil
}

// produce pushes a delta to each stream at the rate, not all in the same moment.
func (p *product) produce(ctx context.Context, streams []*plane.Stream) (pushed int64, err error) {
	const slots = 20 // of a period
	order := rand.Perm(len(streams))
	step := time.Second / time.Duration(p.rate) / slots
	began := time.Now()
	for slot := range int(p.length / step) {
		// Not by a ticker: it leaves out what a busy machine is late for.
		select {
		case <-time.After(time.Until(began.Add(time.Duration(slot) * step))):
		case <-ctx.Done():
			return pushed, ctx.Err()
		}
		for i := slot % slots; i < len(order); i += slots {
			n := order[i]
			p.times[n].push()
			if err := streams[n].Push(ctx, delta); err != nil {
				return pushed, err
			}
			pushed++
		}
	}
	return pushed, nil
}

func (t *pushes) push() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at[t.n%remembered] = time.Now().UnixNano()
	t.n++
}

// durable is told of checkpoints.
func (p *product) durable(c plane.Checkpoint) {
	if c.Seal {
		return
	}
	if c.Err != nil {
		p.failed.Add(1)
		return
	}
	p.checkpoints.Add(1)
	var n int
	if _, err := fmt.Sscan(c.StreamID, &n); err != nil {
		return
	}
	t := &p.times[n]
	t.mu.Lock()
	first := t.at[int(c.From)/len(delta)%remembered]
	t.mu.Unlock()
	took := time.Now().UnixNano() - first
	for {
		longest := p.longest.Load()
		if took <= longest || p.longest.CompareAndSwap(longest, took) {
			return
		}
	}
}

// postmasterOf returns the process of a server that is the parent of the others.
func postmasterOf(ctx context.Context, url string) (pid int, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	var backend int
	err = conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend)
	if closed := conn.Close(ctx); err == nil {
		err = closed
	}
	if err != nil {
		return 0, err
	}
	p, err := measure.Of(backend)
	return p.Parent, err
}

// cpu is what this process, and a server with all its processes, have used.
func cpu(postmaster int) (own, server time.Duration, err error) {
	self, err := measure.Of(os.Getpid())
	if err != nil {
		return 0, 0, err
	}
	all, err := measure.All()
	if err != nil {
		return 0, 0, err
	}
	for _, p := range all {
		switch {
		case p.PID == postmaster:
			server += p.Used + p.Children
		case p.Parent == postmaster:
			server += p.Used
		}
	}
	if server == 0 {
		return 0, 0, errors.New("the server's processes are not to be seen")
	}
	return self.Used, server, nil
}
