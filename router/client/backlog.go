package client

import (
	"context"
	"iter"
	"sync"

	"rillkeep.dev/rillkeep/plane"
)

// maxBacklog is how much of its text a producer keeps that is not durable yet, in
// UTF-16 code units: one that is further ahead waits.
const maxBacklog = 1 << 20

// backlog is what a producer gave, from the first delta on that is not durable: a
// stream that goes to another node takes along what is, and the rest is sent
// again.
type backlog struct {
	limit int64

	mu     sync.Mutex // guards below
	deltas []given
	next   int   // of deltas, to be sent
	skip   int64 // units of that one that are there already
	end    int64 // offset at which the text given so far ends
	over   bool  // the source has ended
	err    error // its error
	change chan struct{}
}

type given struct {
	from int64 // UTF-16 code units
	text string
}

func newBacklog(from, limit int64) *backlog {
	return &backlog{limit: limit, end: from, change: make(chan struct{})}
}

// changed wakes who waits. b.mu is held.
func (b *backlog) changed() {
	close(b.change)
	b.change = make(chan struct{})
}

// fill takes what the source gives, until it ends or ctx does.
func (b *backlog) fill(ctx context.Context, source func(context.Context) iter.Seq2[string, error]) {
	var failed error
	for delta, err := range source(ctx) {
		if err != nil {
			failed = err
			break
		}
		if b.add(ctx, delta) != nil {
			break
		}
	}
	b.finish(failed)
}

// finish says that nothing more comes, because of an error perhaps.
func (b *backlog) finish(failed error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over, b.err = true, failed
	b.changed()
}

// add waits for room until ctx ends. After finish it takes nothing.
func (b *backlog) add(ctx context.Context, delta string) error {
	for {
		b.mu.Lock()
		if b.over {
			b.mu.Unlock()
			return errProduced
		}
		if len(b.deltas) == 0 || b.end-b.deltas[0].from < b.limit {
			b.deltas = append(b.deltas, given{b.end, delta})
			b.end += plane.Units(delta)
			b.changed()
			b.mu.Unlock()
			return nil
		}
		change := b.change
		b.mu.Unlock()
		select {
		case <-change:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// take waits for what is to be sent next. There is nothing more when the source has
// ended, or ctx has.
func (b *backlog) take(ctx context.Context) (text string, ok bool) {
	for {
		b.mu.Lock()
		if b.next < len(b.deltas) {
			text = plane.Skip(b.deltas[b.next].text, b.skip)
			b.next, b.skip = b.next+1, 0
			b.mu.Unlock()
			return text, true
		}
		change, over := b.change, b.over
		b.mu.Unlock()
		if over {
			return "", false
		}
		select {
		case <-change:
		case <-ctx.Done():
			return "", false
		}
	}
}

// forget gives up what is durable and was sent.
func (b *backlog) forget(durable int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for n < b.next && b.deltas[n].from+plane.Units(b.deltas[n].text) <= durable {
		n++
	}
	if n > 0 {
		clear(b.deltas[:n])
		b.deltas, b.next = b.deltas[n:], b.next-n
		b.changed()
	}
}

// rewind makes the text at an offset what is sent next, and reports whether it is
// there.
func (b *backlog) rewind(to int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if to > b.end || len(b.deltas) > 0 && to < b.deltas[0].from {
		return false
	}
	b.next, b.skip = len(b.deltas), 0
	for i, d := range b.deltas {
		if to < d.from+plane.Units(d.text) {
			b.next, b.skip = i, to-d.from
			break
		}
	}
	return len(b.deltas) > 0 || to == b.end
}

// failed is the source's error.
func (b *backlog) failed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// tip is the offset at which the text given so far ends.
func (b *backlog) tip() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.end
}
