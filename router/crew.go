package router

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"

	"rillkeep.dev/rillkeep/plane"
)

// crewSize is how many readers one goroutine writes to. A stream with more has
// more crews, and so may use more cores.
const crewSize = 128

// crews are the goroutines that write to readers at the tip of their streams. A
// write to one of those hardly ever has to wait, so that one goroutine does for
// many what otherwise each needs one of its own for, with its stack, its parking
// and its waking at each frame. A reader that would make others wait gets its
// own goroutine back until it is at the tip again.
type crews struct {
	serving *group
	metrics *Metrics

	mu sync.Mutex // guards below, and size and joined of each crew
	of map[*plane.Live][]*crew
}

// prompt is a connection that can be written to without waiting.
type prompt interface {
	// try writes what of b the connection takes at once, and says how much: less
	// than all is no error. It is not to be called during a send.
	try(b []byte) (n int, err error)
}

// take gives a delivery to a crew if it can have it, which is its owner then.
func (cs *crews) take(d *delivery) bool {
	stream := d.from.Stream()
	if stream == nil || d.prompt == nil {
		return false
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.roomy(stream)
	c.size++
	c.joined = append(c.joined, d)
	c.news.Store(true)
	d.crew.Store(c)
	poke(c.poked) // it looks whether d has something to do: that may have come up since
	return true
}

// roomy returns a crew of the stream that has room, a new one if need be. cs.mu
// is held.
func (cs *crews) roomy(stream *plane.Live) *crew {
	for _, c := range cs.of[stream] {
		if c.size < crewSize {
			return c
		}
	}
	c := &crew{all: cs, stream: stream, poked: make(chan struct{}, 1)}
	if cs.of == nil {
		cs.of = map[*plane.Live][]*crew{}
	}
	cs.of[stream] = append(cs.of[stream], c)
	cs.serving.also()
	go c.run()
	return c
}

// crew is some of a stream's readers, and the goroutine that serves them in turn.
type crew struct {
	all    *crews
	stream *plane.Live
	poked  chan struct{} // holds one; a member has something to do, or has joined

	size   int         // members and joined; guarded by all.mu
	joined []*delivery // to become members; guarded by all.mu
	news   atomic.Bool // somebody has joined since the last muster

	// Of the goroutine.
	members []*delivery
	counted int       // members that size was told of
	at      *delivery // served now
	batch   batch
	joint   []byte // several frames, for one write
}

// run serves the members until there are none.
func (c *crew) run() {
	defer c.all.serving.leave()
	for c.muster() {
		more := c.pass()
		c.batch.count(c.all.metrics)
		select {
		case <-more:
		case <-c.poked:
		}
	}
}

// muster lets in who joined. If nobody is left it ends the crew, and says false.
func (c *crew) muster() bool {
	if !c.news.Swap(false) && len(c.members) == c.counted && c.counted > 0 {
		return true // what all crews share is only asked for when there is something to say
	}
	all := c.all
	all.mu.Lock()
	defer all.mu.Unlock()
	c.members = append(c.members, c.joined...)
	clear(c.joined)
	c.joined = c.joined[:0]
	c.size, c.counted = len(c.members), len(c.members)
	if c.size > 0 {
		return true
	}
	others := slices.DeleteFunc(all.of[c.stream], func(other *crew) bool { return other == c })
	if all.of[c.stream] = others; len(others) == 0 {
		delete(all.of, c.stream)
	}
	return false
}

// pass serves each member that has something to do, and returns what to wait
// for.
func (c *crew) pass() (more <-chan struct{}) {
	kept := c.members[:0]
	for _, d := range c.members {
		if d.due() && !c.serve(d) {
			continue
		}
		kept = append(kept, d)
		switch {
		case more == nil:
			more = d.more
		case more != d.more: // the stream went on during the pass: not all know of it
			more = now
		}
	}
	clear(c.members[len(kept):])
	c.members = kept
	if more == nil {
		return now
	}
	return more
}

// serve does what there is to do for d, and reports whether it stays.
func (c *crew) serve(d *delivery) bool {
	c.at = d
	reason := d.step(&c.batch, c)
	switch {
	case reason != "":
		go d.finish(reason)
	case len(d.rest) > 0 || d.from.Stream() != c.stream:
		d.crew.Store(nil)
		go d.run()
	default:
		return true
	}
	return false
}

// send is a step's: it takes what goes at once.
func (c *crew) send(buffers [][]byte) error {
	d, b := c.at, buffers[0]
	if len(buffers) > 1 {
		c.joint = c.joint[:0]
		for _, more := range buffers {
			c.joint = append(c.joint, more...)
		}
		b = c.joint
	}
	n, err := d.prompt.try(b)
	if err != nil || n == len(b) {
		return err
	}
	if d.rest = b[n:]; len(buffers) > 1 { // the bytes of a frame never change, but joint does
		d.rest = bytes.Clone(d.rest)
	}
	return errBehind
}
