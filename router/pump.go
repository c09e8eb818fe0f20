package router

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/upstream"
	"rillkeep.dev/rillkeep/router/wire"
)

// pump takes a long body of deltas, acknowledges as their text becomes durable,
// and leaves the stream open.
func (r *Router) pump(c echo.Context) error {
	to, err := producing(c)
	if err != nil {
		return err
	}
	kind, err := contentType(c, typeNDJSON, typeText)
	if err != nil {
		return err
	}
	s, err := r.live(c)
	switch {
	case err != nil:
		return err
	case s.IsCancelled():
		return plane.ErrCancelled
	case to.from < 0:
		to.from = s.State().Received
	}
	if err := s.Refusal(); err != nil {
		return err
	}
	format := upstream.NDJSON
	if kind == typeText {
		format = upstream.Text
	}
	p := pump{s: s, to: to, waits: r.waits, w: c.Response(), control: http.NewResponseController(c.Response()), stall: r.limits.Stall, ping: r.limits.Ping}
	p.serve(c.Request(), func(ctx context.Context, body io.Reader) iter.Seq2[string, error] {
		return upstream.Deltas(ctx, body, format, upstream.Options{MaxLine: r.limits.PumpLineBytes})
	})
	return nil
}

// duplex lets a request be answered before its body has ended, which for a long
// one may be never; also with a refusal.
func duplex(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		// Fails where the protocol is full duplex anyway.
		_ = http.NewResponseController(c.Response()).EnableFullDuplex()
		if c.Request().ProtoMajor == 1 {
			// What is left of a body that was not read to its end is no next request.
			c.Response().Header().Set("Connection", "close")
		}
		err := next(c)
		if err != nil {
			readUntil(c, time.Now().Add(lastWord))
		}
		return err
	}
}

// pump is one long request of a producer. Its goroutine reads the body; a
// second one, which serve waits for, writes acknowledgements.
type pump struct {
	s       *plane.Stream
	to      production
	w       http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration // for a line to be taken
	ping    time.Duration // between lines
	waits   func() bool   // its producer can resume the stream elsewhere, and should
}

func (p pump) serve(req *http.Request, parse func(context.Context, io.Reader) iter.Seq2[string, error]) {
	_ = p.control.SetReadDeadline(time.Time{})
	_ = p.control.SetWriteDeadline(time.Time{})
	p.w.Header().Set("Content-Type", typeNDJSON)
	p.w.Header().Set("Cache-Control", "no-store")
	p.w.Header().Set("X-Accel-Buffering", "no")
	// The head goes with the first line: a client that asks whether to send its
	// body at all would get no answer to that after a head.

	ctx, cancel := context.WithCancelCause(req.Context())
	defer cancel(nil)
	var acks sync.WaitGroup
	tip := p.s.Join(p.s.State().Seq)
	acks.Go(func() {
		if err := p.acknowledge(ctx, tip); err != nil {
			cancel(err) // nobody reads the answer: the producer is gone; or it is to go
		}
	})

	in, out := io.Pipe()
	var body sync.WaitGroup
	body.Go(func() { take(out, req.Body) })
	err := p.s.PumpAs(ctx, p.to.as, p.to.from, func(ctx context.Context) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			defer context.AfterFunc(ctx, func() { _ = in.CloseWithError(context.Cause(ctx)) })()
			parse(ctx, in)(yield)
		}
	})
	if cause := context.Cause(ctx); errors.Is(cause, errWaits) {
		err = cause
	}
	cancel(nil)
	acks.Wait()
	p.finish(req.Context(), err)
	_ = in.Close()
	_ = p.control.SetReadDeadline(time.Now().Add(lastWord))
	body.Wait()
}

// lastWord is how long a producer may go on sending while it takes the last
// line. Closed at once, its connection would be reset, and the line be lost.
const lastWord = time.Second

// take copies a body to a pipe. A read of a body does not end with a context,
// so that it is done here, where nobody waits for it. What the pipe does not
// take any more is thrown away.
func take(to *io.PipeWriter, body io.Reader) {
	_, err := io.Copy(to, body)
	_ = to.CloseWithError(err)
	_, _ = io.Copy(io.Discard, body)
}

// acknowledge writes a line for each durable advance, and when there was none for
// long, until the stream or ctx ends. Where the cursor fell behind what is kept in
// memory, another goes on.
func (p pump) acknowledge(ctx context.Context, tip *plane.Cursor) error {
	defer func() { tip.Close() }()
	for beat := p.beat(ctx); ; {
		f, err := tip.Next(beat)
		switch {
		case err != nil && ctx.Err() == nil && beat.Err() != nil && p.to.as != (plane.ProducerEpoch{}) && p.waits():
			return errWaits
		case err != nil && ctx.Err() == nil && beat.Err() != nil: // it is still here, and so is its node
			beat = p.beat(ctx)
		case err != nil:
			return nil
		case f.Kind == plane.KindStale && !p.s.State().Over:
			tip = p.s.Join(p.s.State().Seq) // it tells of what becomes durable after this
		case f.Kind != plane.KindDurable:
			continue
		}
		if err := p.line(wire.PumpLine{Ack: p.ack()}); err != nil {
			return err
		}
		// One that passes between lines would end an HTTP/2 stream.
		_ = p.control.SetWriteDeadline(time.Time{})
	}
}

// beat is done when a line is due, whether or not there is anything to tell.
func (p pump) beat(ctx context.Context) context.Context {
	beat, cancel := context.WithTimeout(ctx, min(p.ping, innerPing))
	context.AfterFunc(beat, cancel) // at the latest when ctx is done, which serve sees to
	return beat
}

func (p pump) ack() wire.Ack {
	st := p.s.State()
	return wire.Ack{Seq: st.Received, DurableSeq: st.Durable}
}

// finish writes the last line.
func (p pump) finish(ctx context.Context, err error) {
	last := wire.PumpLine{Ack: p.ack()}
	var reported *upstream.Error
	switch {
	case err == nil, errors.Is(err, upstream.ErrEmpty):
		last.Done, last.Cancelled = true, p.s.IsCancelled()
	case errors.Is(err, upstream.ErrTooLong):
		last.Error = wire.FromError(wire.Detail(wire.ErrTooLarge, "%v", err))
	case errors.Is(err, upstream.ErrMalformed), errors.As(err, &reported):
		last.Error = wire.FromError(wire.Detail(wire.ErrBadRequest, "%v", err))
	case errors.Is(err, upstream.ErrTruncated):
		last.Error = wire.FromError(wire.Detail(wire.ErrBadRequest, "the body did not arrive whole"))
	default:
		last.Error = wire.FromError(err)
	}
	if errors.Is(err, plane.ErrClosed) { // by another, whose end this answers; its node may be gone before it can be asked
		if ending, _ := p.s.Close(ctx); ending.Status.Ended() {
			last.Ack = wire.Ack{Seq: ending.Seq, DurableSeq: ending.Seq, Status: ending.Status}
		}
	}
	_ = p.line(last) // the producer is gone: nobody left to tell
}

func (p pump) line(v wire.PumpLine) error {
	_ = p.control.SetWriteDeadline(time.Now().Add(p.stall))
	if err := json.NewEncoder(p.w).Encode(v); err != nil {
		return err
	}
	return p.control.Flush()
}
