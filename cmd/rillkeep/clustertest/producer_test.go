package clustertest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/wire"
)

// producer says a text, as a careful client of the API does: each delta at its
// offset, again until it is taken.
type producer struct {
	c       *cluster
	text    *text
	attempt int           // which of the nodes it is led to
	pause   time.Duration // between two deltas
	once    atomic.Bool   // it does not come back once its stream's node is gone

	pos     int64
	next    int          // delta
	durable atomic.Int64 // it was told so
	retried int
	resumed int
	gone    error // why it does not come back
}

func (p *producer) client() *client.Client {
	_, cl := p.c.through(p.attempt).place()
	return cl
}

// open opens the stream.
func (p *producer) open(ctx context.Context) error {
	return p.insist(ctx, func(cl *client.Client) error {
		o, err := cl.Open(ctx, p.text.id, wire.Open{Producer: "test", Resume: true})
		if err == nil && (o.Status != plane.StatusStreaming || o.Seq != 0) {
			return fmt.Errorf("%w: %+v", errLost, o)
		}
		return err
	})
}

// speak says one delta after the other until enough is closed or the text is over.
func (p *producer) speak(ctx context.Context, enough <-chan struct{}) error {
	tick := time.NewTicker(p.pause)
	defer tick.Stop()
	for ; p.next < len(p.text.ends); p.next++ {
		if err := p.append(ctx, p.text.ends[p.next]); err != nil {
			return err
		}
		if p.gone != nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-enough:
			p.next++
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// close seals the stream, which must be whole.
func (p *producer) close(ctx context.Context) error {
	return p.insist(ctx, func(cl *client.Client) error {
		s, err := cl.Close(ctx, p.text.id, wire.Close{})
		if err == nil && (s.Status != plane.StatusComplete || s.Seq != p.pos || s.DurableSeq != p.pos) {
			return fmt.Errorf("%w: sealed as %+v, at %d", errLost, s, p.pos)
		}
		return err
	})
}

// errLost says that something is lost, which no retry brings back.
var errLost = errors.New("lost")

// append has the stream take the text up to end.
func (p *producer) append(ctx context.Context, end int64) error {
	p.text.sent.Store(end)
	return p.insist(ctx, func(cl *client.Client) error {
		if p.pos == end {
			return nil
		}
		ack, err := cl.Append(ctx, p.text.id, p.pos, p.text.slice(p.pos, end))
		if err == nil {
			p.pos = ack.Seq
			p.durable.Store(max(p.durable.Load(), ack.DurableSeq))
			if ack.Seq != end {
				return fmt.Errorf("%w: %+v, want %d", errLost, ack, end)
			}
			return nil
		}
		if said, ok := errors.AsType[*wire.Error](err); ok && said.Want != nil {
			if *said.Want > end {
				return fmt.Errorf("%w: %w, at %d", errLost, err, p.pos)
			}
			p.pos = *said.Want
		}
		return err
	})
}

// insist does something until it is done, through one node after the other.
func (p *producer) insist(ctx context.Context, do func(*client.Client) error) error {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := do(p.client())
		if err == nil {
			return nil
		}
		if p.once.Load() {
			p.gone = err
			return nil
		}
		if ctx.Err() != nil || errors.Is(err, errLost) {
			return fmt.Errorf("producer at %d of %s: %w", p.pos, p.text.id, err)
		}
		p.retried++
		p.attempt++
		said, ok := errors.AsType[*wire.Error](err)
		switch {
		case !ok, said.Status >= 500, said.Want != nil:
		case errors.Is(err, plane.ErrHeld), errors.Is(err, plane.ErrFenced), errors.Is(err, plane.ErrNotFound), errors.Is(err, plane.ErrLostRace):
			if err := p.resume(ctx); err != nil {
				return err
			}
		default:
			return fmt.Errorf("producer at %d of %s: %w", p.pos, p.text.id, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// resume claims the stream anew, wherever it is.
func (p *producer) resume(ctx context.Context) error {
	o, err := p.client().Open(ctx, p.text.id, wire.Open{Producer: "test", Resume: true})
	if err != nil {
		return nil // later, maybe
	}
	p.resumed++
	if o.Status != plane.StatusStreaming {
		return fmt.Errorf("producer at %d of %s: %w: it is %+v", p.pos, p.text.id, errLost, o)
	}
	p.pos = o.Seq
	return nil
}
