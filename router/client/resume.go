package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/wire"
)

// attemptTime bounds one attempt to open or resume a stream: a node that takes
// longer is not one to wait for.
const attemptTime = 15 * time.Second

// ErrBehind says that a stream's durable text ends before what its producer still
// has: it was produced by another, or somebody has put its store back.
var ErrBehind = errors.New("the stream ends before the text that is still here to be sent")

// deliver sends what is given until nothing more comes and all has arrived, or the
// producer has failed.
func (p *Producer) deliver() {
	for w := (backoff{}); ; {
		durable := p.Acked().DurableSeq
		p.mu.Lock()
		to := at{from: p.opened.Seq, epoch: p.opened.ProducerEpoch}
		p.mu.Unlock()
		ack, err := p.client.pumpOnce(p.ctx, p.id, to, p.out, p.heard)
		switch {
		case p.ctx.Err() != nil:
			p.fail(context.Cause(p.ctx))
			return
		case err == nil && ack.Cancelled:
			p.fail(plane.ErrCancelled)
			return
		case err == nil:
			p.heard(ack)
			return
		case !passing(err):
			if ack.Status.Ended() {
				p.end(wire.Sealed{Status: ack.Status, Seq: ack.Seq, DurableSeq: ack.DurableSeq})
			}
			p.fail(err)
			return
		}
		p.lost(err)
		if p.Acked().DurableSeq > durable {
			w = backoff{}
		}
		if !w.next(p.ctx) { // it may be resumed each time, and take nothing
			p.fail(context.Cause(p.ctx))
			return
		}
		if !p.resume() {
			return
		}
	}
}

// resume goes on with the stream wherever it is, and reports whether it does.
func (p *Producer) resume() bool {
	if err := p.open(true); err != nil {
		p.fail(err)
		return false
	}
	p.mu.Lock()
	opened := p.opened
	p.mu.Unlock()
	if !p.out.rewind(opened.Seq) {
		p.fail(ErrBehind)
		return false
	}
	p.acked(wire.Ack{Seq: opened.Seq, DurableSeq: opened.DurableSeq})
	return true
}

// open opens the stream, or resumes it, for as long as it takes. Whoever gave no
// answer may have opened it: then it is resumed, by the producer's own name.
func (p *Producer) open(resume bool) error {
	began := time.Now()
	for w := (backoff{}); ; {
		opened, err := p.ask(resume)
		switch {
		case err == nil && opened.Status.Ended():
			p.mu.Lock()
			p.sealed = wire.Sealed{Status: opened.Status, Seq: opened.Seq, DurableSeq: opened.DurableSeq}
			p.mu.Unlock()
			return fmt.Errorf("%w: %s", plane.ErrClosed, opened.Status)
		case err == nil:
			p.mu.Lock()
			p.opened = opened
			p.mu.Unlock()
			return nil
		case p.ctx.Err() != nil:
			return context.Cause(p.ctx)
		case !passing(err):
			return err
		case p.how.Patience > 0 && time.Since(began) > p.how.Patience:
			return err
		}
		p.lost(err)
		if !w.wait(p.ctx, nil) {
			return context.Cause(p.ctx)
		}
		resume = resume || !isRefusal(err)
	}
}

func (p *Producer) ask(resume bool) (opened wire.Opened, err error) {
	ctx, cancel := context.WithTimeout(p.ctx, attemptTime)
	defer cancel()
	p.attempts++ // of those that it has given up, any may arrive yet
	body := wire.Open{Producer: p.how.Producer, Meta: p.how.Meta, Resume: resume, Instance: p.instance, Attempt: p.attempts}
	err = p.client.post(ctx, p.client.stream(p.id), body, &opened)
	return opened, err
}

// isRefusal reports whether a server has answered, and so not done what it was asked;
// one that answers for a node that has not may have done it.
func isRefusal(err error) bool {
	_, ok := errors.AsType[*wire.Error](err)
	return ok && !errors.Is(err, wire.ErrNoAnswer) && !errors.Is(err, wire.ErrInternal)
}

// passing reports whether trying again may help: a server said that, or none did
// say anything.
func passing(err error) bool {
	said, ok := errors.AsType[*wire.Error](err)
	return !ok || passes(said.Status) || errors.Is(err, plane.ErrGap)
}

// passes reports whether a refusal says nothing of the stream or who asks, only of
// the moment.
func passes(status int) bool {
	return status >= 500 || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests
}
