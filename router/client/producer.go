package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/wire"
)

// Producing says how a stream is produced.
type Producing struct {
	// Producer names who produces: who resumes a stream must give the name that it was
	// opened with. "" makes one up, which nobody else has.
	Producer string
	Meta     json.RawMessage // kept with the stream
	Resume   bool            // go on with a stream that is there, where its text ends

	// Backlog is how much text is kept that is not durable yet, in UTF-16 code units:
	// with more, Push waits. 0 means a million.
	Backlog int64

	// Patience is how long to try until a node takes the stream, at first and whenever
	// one is lost; 0 means as long as the producer's context lasts.
	Patience time.Duration

	// Progress, if set, is told of each acknowledgement, and Lost why a connection was
	// given up for another, or an attempt was in vain. They are called one after the
	// other, by Produce and then on a goroutine of the producer's, and hold it up.
	Progress func(wire.Ack)
	Lost     func(why error)
}

// Producer produces one stream, whichever node dies: it keeps what is not durable,
// and when its node or the way there is lost, it resumes the stream by any of the
// client's servers and sends that again. Its methods are safe for concurrent use;
// of concurrent pushes the order is not defined.
//
// It has a goroutine, and a connection, until Close, Fail or Interrupt has
// returned, or its context has ended.
type Producer struct {
	client *Client
	id     string
	how    Producing
	life   context.Context // as it was given
	ctx    context.Context // ends with that, and with the stream
	cancel context.CancelCauseFunc
	out    *backlog
	sent   chan struct{} // closed when the goroutine has ended

	instance string // of this producer, in its opens
	attempts int64  // their number; of the goroutine that opens

	pushing sync.Mutex // guards held
	held    string     // what Write was given of a character that is cut

	mu     sync.Mutex // guards below
	opened wire.Opened
	ack    wire.Ack
	change chan struct{} // closed at the next acknowledgement
	failed error         // why it produces no more
	sealed wire.Sealed   // how the stream has ended, if that was said
}

// Produce opens a stream, or resumes it, and returns its producer. ctx is all of its
// life, not of this call alone: when it ends, the producer does, and the stream is
// another's to resume.
//
// It answers the refusals of an open: plane.ErrExists, plane.ErrOpenHere and
// plane.ErrHeld of a stream that is there, and with Resume plane.ErrHeld of one
// that another produces, and plane.ErrClosed of one that has ended.
func (c *Client) Produce(ctx context.Context, id string, how Producing) (*Producer, error) {
	how.Producer = cmp.Or(how.Producer, rand.Text())
	how.Backlog = cmp.Or(how.Backlog, maxBacklog)
	p := &Producer{client: c, id: id, how: how, life: ctx, instance: rand.Text(), sent: make(chan struct{}), change: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	if err := p.open(how.Resume); err != nil {
		p.cancel(err)
		return nil, err
	}
	p.out = newBacklog(p.opened.Seq, how.Backlog)
	go func() {
		defer close(p.sent)
		p.deliver()
	}()
	return p, nil
}

// Seq returns where the next delta starts: the text given so far ends there.
func (p *Producer) Seq() int64 { return p.out.tip() }

// Acked returns the newest acknowledgement.
func (p *Producer) Acked() wire.Ack {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ack
}

// Push gives the stream its next delta. It waits while too much is not durable; it
// does not wait until the delta is. Its errors are the end of ctx, and of the
// producer: plane.ErrCancelled of a stream that was asked to stop, plane.ErrClosed of
// one that another has ended, plane.ErrFenced when another producer has resumed it.
func (p *Producer) Push(ctx context.Context, delta string) error {
	if err := p.Err(); err != nil {
		return err
	}
	if delta == "" {
		return nil
	}
	ctx, done := during(ctx, p.ctx)
	defer done()
	if err := p.out.add(ctx, delta); err != nil {
		return fmt.Errorf("push: %w", err)
	}
	return nil
}

// Write is Push of bytes, which may end within a character: the rest comes with
// the next Write. It makes a Producer an io.Writer.
func (p *Producer) Write(b []byte) (int, error) {
	p.pushing.Lock()
	defer p.pushing.Unlock()
	text := p.held + string(b)
	cut := plane.CutBytes(text)
	if err := p.Push(p.ctx, text[:len(text)-cut]); err != nil {
		return 0, err
	}
	p.held = text[len(text)-cut:]
	return len(b), nil
}

// Pump pushes all that source gives. A *SourceError is the source's own.
func (p *Producer) Pump(ctx context.Context, source iter.Seq2[string, error]) error {
	for delta, err := range source {
		if err != nil {
			return &SourceError{err}
		}
		if err := p.Push(ctx, delta); err != nil {
			return err
		}
	}
	return p.Err()
}

// Flush returns when all that was pushed before it is durable. Half of a pair at its end
// is not, until its mate was pushed, or the stream is closed.
func (p *Producer) Flush(ctx context.Context) error {
	tip := p.Seq()
	arrived := "" // the producer epoch in which all of it had come
	ctx, done := during(ctx, p.ctx)
	defer done()
	for w := (backoff{}); ; {
		p.mu.Lock()
		durable, change := p.ack.DurableSeq, p.change
		p.mu.Unlock()
		if durable >= tip {
			return nil
		}
		if err := p.Err(); err != nil {
			return fmt.Errorf("flush: %w", err)
		}
		// It hurries what has arrived; what has not is acknowledged later.
		epoch := p.epoch()
		ack, err := p.flush(ctx, epoch)
		if err == nil {
			p.acked(ack)
		}
		if err == nil && ack.Seq >= tip {
			if arrived == epoch { // before it was asked: all but half of a pair, perhaps, whose mate is to come
				return nil
			}
			arrived = epoch
			continue
		}
		if !w.wait(ctx, change) && p.Acked().DurableSeq < tip {
			return fmt.Errorf("flush: %w", context.Cause(ctx))
		}
	}
}

func (p *Producer) flush(ctx context.Context, epoch string) (ack wire.Ack, err error) {
	u := p.client.stream(p.id, "flush")
	u.RawQuery = at{from: -1, epoch: epoch}.query()
	err = p.client.post(ctx, u, nil, &ack)
	return ack, err
}

// Close ends the text and seals the stream: complete, or cancelled if it was asked
// to stop. Of all that seal a stream the first counts, and the answer is how it
// ended. It goes on through lost nodes until ctx ends.
func (p *Producer) Close(ctx context.Context) (wire.Sealed, error) {
	return p.seal(ctx, "close", wire.Close{})
}

// Interrupt is Close of a text that is not whole.
func (p *Producer) Interrupt(ctx context.Context) (wire.Sealed, error) {
	return p.seal(ctx, "close", wire.Close{Status: plane.StatusInterrupted})
}

// Fail is Close with an error, whose message all readers see.
func (p *Producer) Fail(ctx context.Context, message string) (wire.Sealed, error) {
	return p.seal(ctx, "fail", wire.Fail{Error: message})
}

// Done returns a channel that is closed when the stream takes no more of this
// producer: Err says why.
func (p *Producer) Done() <-chan struct{} { return p.ctx.Done() }

// Err says why the producer has ended; nil if it has not.
func (p *Producer) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil {
		return context.Cause(p.ctx)
	}
	return p.failed
}

// seal delivers what is left and ends the stream.
func (p *Producer) seal(ctx context.Context, action string, body any) (sealed wire.Sealed, err error) {
	asked := ctx
	defer context.AfterFunc(asked, func() { p.cancel(context.Cause(asked)) })() // also what waits for room, or seals already
	p.pushing.Lock()
	defer p.pushing.Unlock()
	if p.held != "" {
		_ = p.Push(ctx, p.held) // has failed for good if it does, as is found below
		p.held = ""
	}
	p.out.finish(nil)
	<-p.sent
	defer p.cancel(errProduced)
	ctx, done := during(ctx, p.life)
	defer done()
	for w := (backoff{}); ; {
		switch failed := p.Err(); {
		case p.ended().Status.Ended():
			return p.ended(), nil
		case failed != nil && !tellsEnd(failed):
			return sealed, failed
		}
		u := p.client.stream(p.id, action)
		u.RawQuery = at{from: -1, epoch: p.epoch()}.query()
		err := p.client.post(ctx, u, body, &sealed)
		switch {
		case err == nil:
			p.end(sealed)
			return sealed, nil
		case !passing(err):
			return sealed, err
		case !w.wait(ctx, nil):
			return sealed, errors.Join(context.Cause(ctx), err)
		}
		p.lost(err)
		if p.resume() { // what was not durable may be lost with its node
			p.deliver()
		}
	}
}

// during is a context that ends with either.
func during(ctx, other context.Context) (both context.Context, done func()) {
	both, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return both, func() {
		stop()
		cancel(nil)
	}
}

// errProduced is how a producer ends that has done its work.
var errProduced = errors.New("the producer was closed")

// tellsEnd reports whether a stream takes no more, and can be asked how it ended.
func tellsEnd(err error) bool {
	return errors.Is(err, plane.ErrClosed) || errors.Is(err, plane.ErrCancelled)
}

func (p *Producer) epoch() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened.ProducerEpoch
}

// ended is how the stream has ended, if that is known.
func (p *Producer) ended() wire.Sealed {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sealed
}

// end takes note of how the stream has ended.
func (p *Producer) end(sealed wire.Sealed) {
	p.mu.Lock()
	p.sealed = sealed
	p.mu.Unlock()
	p.acked(wire.Ack{Seq: sealed.Seq, DurableSeq: sealed.DurableSeq})
}

// acked takes note of an acknowledgement.
func (p *Producer) acked(ack wire.Ack) {
	p.mu.Lock()
	if ack.DurableSeq >= p.ack.DurableSeq {
		p.ack = ack
		close(p.change)
		p.change = make(chan struct{})
	}
	p.mu.Unlock()
	p.out.forget(ack.DurableSeq)
}

// heard is acked of one that the server sent by itself.
func (p *Producer) heard(ack wire.Ack) {
	p.acked(ack)
	if p.how.Progress != nil {
		p.how.Progress(ack)
	}
}

// fail ends the producer.
func (p *Producer) fail(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil {
		p.failed = why
		close(p.change)
		p.change = make(chan struct{})
	}
	p.cancel(why)
}

func (p *Producer) lost(why error) {
	if p.how.Lost != nil {
		p.how.Lost(why)
	}
}
