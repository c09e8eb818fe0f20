package clustertest

import (
	"context"
	"errors"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/wire"
)

// producer says its script, delta after delta, as a careful client does: each at its
// offset, again when there was no answer, from where it is told to when the stream has
// less.
type producer struct {
	w      *world
	id     string
	script *script
	caller *caller
	pause  time.Duration // between two deltas
	hold   chan struct{} // unless nil, it seals only when this is closed

	ended   chan struct{} // closed when it has done what it can
	sealed  bool          // and that was to seal its stream
	durable int64         // the most that it was told is durable
	refused error         // what ended it before
	slowest time.Duration // append from its first try to its answer
}

// produce starts a producer that speaks to the member at.
func (w *world) produce(id string, at, deltas int, pause time.Duration) *producer {
	p := &producer{
		w: w, id: id, script: newScript(w.rng, deltas), caller: w.caller(at, false, nil),
		pause: pause, ended: make(chan struct{}),
	}
	w.judge.expect(id, p.script)
	w.producers = append(w.producers, p)
	w.running.Go(func() {
		defer close(p.ended)
		defer p.caller.close()
		p.run(w.ctx)
	})
	return p
}

// length is how long it takes to say it all.
func (p *producer) length() time.Duration {
	return time.Duration(len(p.script.deltas)) * p.pause * 11 / 10
}

func (p *producer) run(ctx context.Context) {
	if !p.insist(ctx, func() error {
		_, err := p.caller.client.Open(ctx, p.id, wire.Open{Resume: true})
		return err
	}) {
		return
	}
	var sent, pos int64
	for _, delta := range p.script.deltas {
		sleep(ctx, p.pause)
		sent += plane.Units(delta)
		began := time.Now()
		for pos < sent {
			if !p.insist(ctx, func() error { return p.append(ctx, &pos, sent) }) {
				return
			}
		}
		p.slowest = max(p.slowest, time.Since(began))
	}
	if p.hold != nil {
		<-p.hold
	}
	p.sealed = p.insist(ctx, func() error {
		_, err := p.caller.client.Close(ctx, p.id, wire.Close{})
		return err
	})
}

// append sends the script from pos up to an offset, once.
func (p *producer) append(ctx context.Context, pos *int64, to int64) error {
	ack, err := p.caller.client.Append(ctx, p.id, *pos, p.script.text(*pos, to))
	if err == nil {
		*pos = ack.Seq
		p.durable = max(p.durable, ack.DurableSeq)
		if row := p.w.judge.of(p.id).row; ack.DurableSeq > row.Seq {
			p.w.t.Errorf("H: %s: the producer is told that %d units are durable of %d", p.id, ack.DurableSeq, row.Seq)
		}
		return nil
	}
	if offset, ok := errors.AsType[*plane.OffsetError](err); ok {
		*pos = offset.Want
	}
	return err
}

// insist does something until it succeeds, or is refused for good.
func (p *producer) insist(ctx context.Context, do func() error) bool {
	for tries := 1; ; tries++ {
		err := do()
		switch {
		case err == nil:
			return true
		case errors.Is(err, plane.ErrClosed), ctx.Err() != nil:
			p.refused = err
			return false
		case errors.Is(err, plane.ErrConflict), errors.Is(err, plane.ErrNotFound), errors.Is(err, wire.ErrInternal) && !errors.Is(err, client.ErrUnreached):
			p.w.t.Errorf("%s: the producer is told %v", p.id, err)
			p.refused = err
			return false
		}
		if _, said := errors.AsType[*wire.Error](err); !said || tries%10 == 0 {
			p.caller.turn() // it does not answer, or not as one would like
		}
		sleep(ctx, 100*time.Millisecond)
	}
}

// sleep lets time pass, until ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
