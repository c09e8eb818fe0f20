// Package group makes one write of the appends of many streams (group commit).
// Nobody waits for a batch to fill: what comes while one is under way is the
// next one, so that batches are as large as the load makes them, and an append
// that comes alone goes alone, at once.
package group

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

const (
	// MaxBatch bounds the slices of one write: for thousands a planner reads
	// through the whole table.
	MaxBatch = 512

	// maxBytes bounds their text, a single slice's apart: it is what a
	// statement's buffer takes.
	maxBytes = 4 << 20

	// lanes is how many batches are under way at once: while one waits for the
	// disk the next is planned and executed. More make batches smaller, not more.
	lanes = 2
)

// Writer is the database. The rules of plane.Store.Append hold for each slice.
type Writer interface {
	// One appends one slice.
	One(ctx context.Context, slice plane.Slice) (plane.Row, error)

	// Many appends slices of different streams, in the order of their ids, all
	// or, if it fails, none. A slice that could not be appended for what its
	// own row is, or who has it locked, is told so in its answer and keeps back
	// no other. Answers are in the order of the slices.
	Many(ctx context.Context, slices []plane.Slice) ([]Answer, error)

	// Divisible reports whether a Many failed for what one of its slices is, so
	// that parts of it may succeed.
	Divisible(err error) bool
}

// Answer is what became of one slice.
type Answer struct {
	Row plane.Row
	Err error
}

// Group is a database's appends. It is safe for concurrent use.
type Group struct {
	to Writer

	mu      sync.Mutex          // guards below
	queue   []*entry            // oldest first
	flying  map[string]struct{} // ids in the batches under way
	running int                 // batches under way, and appends that go alone
	work    sync.WaitGroup      // goroutines that take from queue
}

// entry is a slice on its way.
type entry struct {
	ctx    context.Context
	slice  plane.Slice
	done   chan struct{} // closed when answer is set
	answer Answer
}

// New returns a group in front of a database.
func New(to Writer) *Group { return &Group{to: to, flying: map[string]struct{}{}} }

// Append is plane.Store.Append. If ctx ends first it says so, and the slice may
// or may not be appended.
func (g *Group) Append(ctx context.Context, slice plane.Slice) (plane.Row, error) {
	if g.alone(slice.ID) {
		defer g.leave(slice.ID)
		return g.to.One(ctx, slice)
	}
	e := &entry{ctx: ctx, slice: slice, done: make(chan struct{})}
	g.put(e)
	select {
	case <-e.done:
		return e.answer.Row, e.answer.Err
	case <-ctx.Done():
		return plane.Row{}, ctx.Err()
	}
}

// alone reports whether a slice may go at once, on its caller's goroutine: nobody
// waits to be taken. The caller is to leave.
func (g *Group) alone(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.flying[id]; ok || g.running == lanes || len(g.queue) > 0 {
		return false
	}
	g.running++
	g.flying[id] = struct{}{}
	return true
}

// leave is the end of one that went alone. Who came meanwhile goes on in its lane.
func (g *Group) leave(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.flying, id)
	if len(g.queue) == 0 {
		g.running--
		return
	}
	g.work.Go(g.run)
}

func (g *Group) put(e *entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue = append(g.queue, e)
	if g.running < lanes {
		g.running++
		g.work.Go(g.run)
	}
}

// Wait returns when nothing is under way. Nobody may be appending.
func (g *Group) Wait() { g.work.Wait() }

// run commits what is queued until there is nothing to take. It ends soon after
// the last Append has: each batch's context does.
func (g *Group) run() {
	for batch := g.take(nil); batch != nil; batch = g.take(batch) {
		g.commit(batch)
		// Those who were answered, and have more, come into the next batch: else
		// they would be every other one, of half the size.
		runtime.Gosched()
	}
}

// take returns the next batch, after the one that was done; nil if there is none,
// and run is to end. Of two slices of one stream, which are a repeat and its
// forerunner, one waits for the other.
func (g *Group) take(done []*entry) (batch []*entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range done {
		delete(g.flying, e.slice.ID)
	}
	bytes, rest := 0, g.queue[:0]
	for n, e := range g.queue {
		if len(batch) == MaxBatch || len(batch) > 0 && bytes+len(e.slice.Text) > maxBytes {
			rest = append(rest, g.queue[n:]...)
			break
		}
		if e.ctx.Err() != nil { // nobody waits for it any longer
			continue
		}
		if _, ok := g.flying[e.slice.ID]; ok {
			rest = append(rest, e)
			continue
		}
		g.flying[e.slice.ID] = struct{}{}
		bytes += len(e.slice.Text)
		batch = append(batch, e)
	}
	clear(g.queue[len(rest):])
	g.queue = rest
	if batch == nil {
		g.running--
	}
	return batch
}

// commit writes a batch and answers it. It takes as long as its most patient
// member would wait.
func (g *Group) commit(batch []*entry) {
	ctx, cancel := patience(batch)
	defer cancel()
	slices.SortFunc(batch, func(a, b *entry) int { return strings.Compare(a.slice.ID, b.slice.ID) })
	g.write(ctx, batch)
}

// patience is the context of a batch: of one that goes alone its own, so that it
// ends with it; else until the last of them has given up.
func patience(batch []*entry) (context.Context, context.CancelFunc) {
	if len(batch) == 1 {
		return context.WithCancel(batch[0].ctx)
	}
	var latest time.Time
	for _, e := range batch {
		deadline, ok := e.ctx.Deadline()
		if !ok {
			return context.WithCancel(context.WithoutCancel(e.ctx))
		}
		if deadline.After(latest) {
			latest = deadline
		}
	}
	return context.WithDeadline(context.WithoutCancel(batch[0].ctx), latest)
}

// write writes a batch; if that fails for one of it, each half for itself.
func (g *Group) write(ctx context.Context, batch []*entry) {
	if len(batch) == 1 {
		e := batch[0]
		row, err := g.to.One(ctx, e.slice)
		e.settle(Answer{row, err})
		return
	}
	all := make([]plane.Slice, len(batch))
	for n, e := range batch {
		all[n] = e.slice
	}
	answers, err := g.to.Many(ctx, all)
	switch {
	case err == nil:
		for n, e := range batch {
			e.settle(answers[n])
		}
	case g.to.Divisible(err) && ctx.Err() == nil:
		half := len(batch) / 2
		g.write(ctx, batch[:half])
		g.write(ctx, batch[half:])
	default:
		for _, e := range batch {
			e.settle(Answer{Err: err})
		}
	}
}

func (e *entry) settle(a Answer) {
	e.answer = a
	close(e.done)
}
