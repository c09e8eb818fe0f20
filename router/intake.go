package router

import (
	"context"
	"fmt"
	"io"
	"iter"
	"sync"

	"rillkeep.dev/rillkeep/plane"
)

// intake takes a pump's body into its stream. A read of a body does not end with a
// context: so that is done in a goroutine of its own, and nobody waits for the read
// that is under way when the stream wants no more.
type intake struct {
	stream *plane.Stream
	to     production
	body   io.Reader
	parse  func(context.Context, io.Reader) iter.Seq2[string, error]

	begun chan context.Context // what the stream gave the source: done when it wants no more
	done  chan error           // how it went

	mu   sync.Mutex // held while a delta is pushed
	left bool       // nothing is pushed any more
}

func newIntake(s *plane.Stream, to production, body io.Reader, parse func(context.Context, io.Reader) iter.Seq2[string, error]) *intake {
	return &intake{
		stream: s, to: to, body: body, parse: parse,
		begun: make(chan context.Context, 1), done: make(chan error, 1),
	}
}

// run takes the body, and calls over when there is no more to wait for. What the
// stream does not want of it is read, too, and thrown away.
func (in *intake) run(ctx context.Context, over func()) {
	defer func() { // net/http has no hand in this goroutine: a panic costs its pump, not the node
		if p := recover(); p != nil {
			in.done <- fmt.Errorf("pump: panic: %v", p)
			over()
		}
	}()
	in.done <- in.stream.PumpAs(ctx, in.to.as, in.to.from, func(ctx context.Context) iter.Seq2[string, error] {
		in.begun <- ctx
		return func(yield func(string, error) bool) {
			defer context.AfterFunc(ctx, over)()
			in.parse(ctx, in.body)(func(delta string, err error) bool {
				in.mu.Lock()
				defer in.mu.Unlock()
				return !in.left && yield(delta, err)
			})
		}
	})
	over()
	_, _ = io.Copy(io.Discard, in.body)
}

// end returns how it went, when run has called over or ctx, which it was given, is
// done. Nothing is pushed after that.
func (in *intake) end(ctx context.Context) error {
	var source context.Context
	select {
	case err := <-in.done:
		return err
	case source = <-in.begun:
	}
	select {
	case err := <-in.done:
		return err
	case <-source.Done():
	}
	cause := context.Cause(source)
	if cause == context.Canceled && ctx.Err() == nil { // it has come to its end
		return <-in.done
	}
	in.mu.Lock()
	in.left = true
	in.mu.Unlock()
	if cause == plane.ErrCancelled {
		return nil
	}
	return cause
}
