package main

import (
	"context"
	"sync"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
)

const (
	quietTime = 5 * time.Second // without a frame until somebody looks, and looks again
	lookTime  = 4 * time.Second // more than a node takes to find out who has a stream
)

// sight is what a look at a silent stream may find.
type sight int

const (
	unseen sight = iota // no answer, or one that says nothing of its node
	there
	away
)

// lookout tells who follows a stream why it is silent: its node may be gone while
// another serves the reader, who would see nothing until the stream's end. It is safe
// for concurrent use.
type lookout struct {
	con  *console
	look func(ctx context.Context) (s sight, durable int64)

	mu    sync.Mutex // guards below
	heard bool       // there was a frame since the last look
	told  bool       // that the text may pause
}

// lookAt returns a look by the API: a stream is read live where it is. Its durable
// length is for one that is away.
func lookAt(c *client.Client, id string) func(context.Context) (sight, int64) {
	return func(ctx context.Context) (sight, int64) {
		ctx, cancel := context.WithTimeout(ctx, lookTime)
		defer cancel()
		for f, err := range c.Follow(ctx, id, plane.MaxOffset, "live") {
			switch {
			case err != nil:
				return unseen, 0
			case f.Kind == plane.KindOpen:
				return there, 0
			}
			break
		}
		snap, err := c.Snapshot(ctx, id)
		if err != nil || snap.Status != plane.StatusStreaming {
			return unseen, 0 // nobody has it yet, or any more
		}
		return away, snap.DurableSeq
	}
}

// run looks at the stream whenever it is silent, until ctx ends.
func (l *lookout) run(ctx context.Context) {
	tick := time.NewTicker(quietTime)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if l.quiet() {
			l.tell(l.look(ctx))
		}
	}
}

func (l *lookout) quiet() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.heard = false }()
	return !l.heard
}

// tell says what was seen, if that is news.
func (l *lookout) tell(s sight, durable int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.heard: // meanwhile
	case s == away && !l.told:
		l.told = true
		l.con.say("the stream's node is away, and %d units are durable; waiting for the stream to go on or to end", durable)
	case s == there && l.told:
		l.told = false
		l.con.say("the stream's node is back")
	}
}

// hear takes note of a frame.
func (l *lookout) hear(f plane.Frame) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = true
	if l.told && !f.Terminal() {
		l.con.say("the stream goes on")
	}
	l.told = false
}

// lost says once that the connection is lost, and why.
func (l *lookout) lost(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.told {
		l.con.say("%v; connecting again", why)
	}
	l.told = true
}
