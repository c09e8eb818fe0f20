package feed

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

// Defaults of a PublisherConfig.
const (
	DefaultPause   = 20 * time.Millisecond
	DefaultBeat    = 5 * time.Second
	DefaultStreams = 1 << 16
)

const (
	maxMessages = 16              // in one send: 128 KB
	maxPause    = 5 * time.Second // between sends while they fail
	sendTime    = 5 * time.Second // for one send
	lastTime    = 2 * time.Second // for what is left at the end
)

// PublisherConfig says how a Publisher sends.
type PublisherConfig struct {
	// Send sends messages in this order, all or none; required. It ends with
	// its context. One that failed may have sent them all the same.
	Send func(ctx context.Context, messages []string) error

	// Pause is the time from the end of a send to the next, at least; 0 means
	// DefaultPause. In PostgreSQL every commit with a NOTIFY takes one lock of
	// the whole server: that is for a few batches a second, not for each change.
	Pause time.Duration

	// Beat is how long after the last message the newest number is told again,
	// so that the loss of the last one is noticed; 0 means DefaultBeat.
	Beat time.Duration

	// Streams is of how many streams changes can wait, while nothing can be
	// sent; 0 means DefaultStreams.
	Streams int
}

// Publisher sends changes. Its methods are safe for concurrent use, but Run,
// which is called once.
//
// A change waits until the send before has ended, so that batches form by
// themselves, and is superseded by a newer one of its stream.
type Publisher struct {
	cfg   PublisherConfig
	id    string
	poked chan struct{} // holds one; something is to be sent

	newest int64 // number that was given out; Run's

	mu      sync.Mutex // guards below
	pending map[string]Change
	order   []string // of the streams in pending
	sending int      // changes that are being sent
	lost    bool     // a change was dropped: a number is to be left out
	stats   PublisherStats
}

// PublisherStats count what became of changes since the publisher was made.
type PublisherStats struct {
	Published  int64 // changes that were sent
	Messages   int64 // in which they were sent, without beats
	Superseded int64 // a newer one of the stream was sent in their place
	OutOfOrder int64 // of those, changes that came after a newer one
	Skipped    int64 // changes that no message can hold
	Dropped    int64 // too many were waiting
	Failed     int64 // sends that failed
}

// NewPublisher returns a publisher with an id of its own. It sends once it runs.
func NewPublisher(cfg PublisherConfig) (*Publisher, error) {
	if cfg.Send == nil || cfg.Pause < 0 || cfg.Beat < 0 || cfg.Streams < 0 {
		return nil, fmt.Errorf("%w: a publisher needs Send, and Pause, Beat and Streams of 0 or more", plane.ErrConfig)
	}
	cfg.Pause = cmp.Or(cfg.Pause, DefaultPause)
	cfg.Beat = cmp.Or(cfg.Beat, DefaultBeat)
	cfg.Streams = cmp.Or(cfg.Streams, DefaultStreams)
	return &Publisher{cfg: cfg, id: rand.Text(), poked: make(chan struct{}, 1), pending: make(map[string]Change)}, nil
}

// ID is the producer of the publisher's messages.
func (p *Publisher) ID() string { return p.id }

// Stats answers the counts so far.
func (p *Publisher) Stats() PublisherStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Publish hands over a change to be sent soon. It never waits and never fails:
// a change that can't be kept is counted, and shows to receivers as a gap.
func (p *Publisher) Publish(c Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch older, waits := p.pending[c.ID]; {
	case !c.fits():
		p.stats.Skipped++
		return
	case waits:
		p.stats.Superseded++
		if c.Seq < older.Seq && c.Status != plane.StatusStreaming {
			p.stats.OutOfOrder++
		}
		p.pending[c.ID] = merge(older, c)
	case len(p.pending)+p.sending >= p.cfg.Streams:
		p.stats.Dropped++
		p.lost = true
	default:
		p.pending[c.ID] = c
		p.order = append(p.order, c.ID)
	}
	p.poke()
}

// merge is what two changes of a stream say together.
func merge(older, c Change) Change {
	if c.Status == plane.StatusStreaming { // the stream begins anew
		return c
	}
	c.Seq, c.Epoch = max(c.Seq, older.Seq), max(c.Epoch, older.Epoch)
	c.Status = cmp.Or(c.Status, older.Status)
	c.Cancel = c.Cancel || older.Cancel
	return c
}

func (p *Publisher) poke() {
	select {
	case p.poked <- struct{}{}:
	default:
	}
}

// Run sends until ctx is done, and then what is left.
func (p *Publisher) Run(ctx context.Context) {
	for failed := 0; ; {
		beat := false
		select {
		case <-p.poked:
		case <-time.After(p.cfg.Beat):
			beat = true
		case <-ctx.Done():
			p.finish(ctx)
			return
		}
		if p.send(ctx, beat) == nil {
			failed = 0
		} else {
			failed++
		}
		select {
		case <-time.After(p.pause(failed)):
		case <-ctx.Done():
		}
	}
}

// pause is the time until the next send.
func (p *Publisher) pause(failed int) time.Duration {
	if failed == 0 {
		return p.cfg.Pause
	}
	longest := min(maxPause, p.cfg.Pause<<min(failed, 20))
	return longest/2 + mathrand.N(longest/2+1)
}

// finish sends what is left.
func (p *Publisher) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
	defer cancel()
	for p.waiting() {
		if p.send(ctx, false) != nil {
			return
		}
	}
}

func (p *Publisher) waiting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pending) > 0 || p.lost
}

// send sends one batch of what waits, or a beat if nothing does.
func (p *Publisher) send(ctx context.Context, beat bool) error {
	messages, changes := p.take()
	switch {
	case len(messages) > 0:
	case beat && p.newest > 0:
		messages = []string{string(appendTail([]byte(head), p.id, p.newest))}
	default:
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	err := p.cfg.Send(ctx, messages)
	p.settle(messages, changes, err)
	return err
}

// take makes messages of what waits, as many as one send has.
func (p *Publisher) take() (messages []string, changes []Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost {
		p.newest++
		p.lost = false
		if len(p.order) == 0 { // a beat says it
			return []string{string(appendTail([]byte(head), p.id, p.newest))}, nil
		}
	}
	var b []byte
	number := p.newest
	end := func() {
		number++
		messages = append(messages, string(appendTail(b, p.id, number)))
	}
	for _, id := range p.order {
		c := p.pending[id]
		before := len(b)
		if before == 0 {
			b = append(b, head...)
		} else {
			b = append(b, ',')
		}
		if b = c.append(b); len(b)+maxTail > MaxMessage {
			b = b[:before]
			if end(); len(messages) == maxMessages {
				b = nil
				break
			}
			b = c.append(append(b[:0], head...))
		}
		changes = append(changes, c)
	}
	if len(b) > 0 {
		end()
	}
	p.order = p.order[len(changes):]
	for _, c := range changes {
		delete(p.pending, c.ID)
	}
	p.sending = len(changes)
	return messages, changes
}

// settle takes note of how a send went. What was not sent, or is not known to
// have been, is sent again, under the same numbers: a repeat is no gap, and
// numbers that nobody saw would be one.
func (p *Publisher) settle(messages []string, changes []Change, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sending = 0
	switch {
	case err != nil:
		p.stats.Failed++
		p.putBack(changes)
	case len(changes) > 0:
		p.newest += int64(len(messages))
		p.stats.Published += int64(len(changes))
		p.stats.Messages += int64(len(messages))
	}
	if len(p.order) > 0 {
		p.poke()
	}
}

// putBack makes changes wait again, before all others. p.mu is held.
func (p *Publisher) putBack(changes []Change) {
	var again []string
	for _, c := range changes {
		newer, waits := p.pending[c.ID]
		if waits {
			p.stats.Superseded++
			p.pending[c.ID] = merge(c, newer)
			continue
		}
		p.pending[c.ID] = c
		again = append(again, c.ID)
	}
	p.order = append(again, p.order...)
}
