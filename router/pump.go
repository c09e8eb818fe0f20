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

// pump is one long request of a producer. Its goroutine writes acknowledgements; a
// second one, which serve waits for, reads the body.
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
	var told int64 // who comes again may have missed any line
	if req.Header.Get("Expect") != "" {
		told = p.s.State().Durable
	}
	in := newIntake(p.s, p.to, req.Body, parse)
	running, over := context.WithCancel(ctx)
	defer over()
	var body sync.WaitGroup
	body.Go(func() { in.run(ctx, over) })
	if err := p.acknowledge(running, told); err != nil {
		cancel(err) // nobody reads the answer: the producer is gone; or it is to go
	}
	<-running.Done()
	err := in.end(ctx)
	p.finish(req.Context(), err)
	cancel(nil)
	_ = p.control.SetReadDeadline(time.Now().Add(lastWord))
	body.Wait()
}

// lastWord is how long a producer may go on sending while it takes the last
// line. Closed at once, its connection would be reset, and the line be lost.
const lastWord = time.Second

// acknowledge writes a line for each durable advance past told, and when there was
// none for long, until the stream or ctx ends.
func (p pump) acknowledge(ctx context.Context, told int64) error {
	for beat := p.beat(ctx); ; {
		st, err := p.s.AwaitDurable(beat, told)
		switch {
		case err == nil:
			told = st.Durable
		case ctx.Err() == nil && beat.Err() != nil && p.to.as != (plane.ProducerEpoch{}) && p.waits():
			return errWaits
		case ctx.Err() == nil && beat.Err() != nil: // it is still here, and so is its node
			beat = p.beat(ctx)
		default:
			return nil
		}
		if err := p.line(wire.PumpLine{Ack: p.ack()}); err != nil {
			return err
		}
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
	// It holds until the next line, which is due before it has passed: the deadline
	// of an HTTP/2 stream would end it also where nothing is written.
	_ = p.control.SetWriteDeadline(time.Now().Add(p.ping + p.stall))
	if err := json.NewEncoder(p.w).Encode(v); err != nil {
		return err
	}
	return p.control.Flush()
}
