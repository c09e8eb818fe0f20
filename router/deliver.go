package router

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/auth"
	"rillkeep.dev/rillkeep/router/sse"
	"rillkeep.dev/rillkeep/router/wire"
)

// Why a reader's connection ended, as the metrics and the log say it, beside the
// terminal frame's own kind: end, stale or absent.
const (
	reasonGone   = "gone"   // the client left
	reasonStop   = "stop"   // the node stops
	reasonStall  = "stall"  // it took nothing for Limits.Stall
	reasonDenied = "denied" // its authorization is over
)

// minRetry is how long an EventSource waits at least before it reconnects, in
// milliseconds.
const minRetry = 1000

// stopGrace is how long a reader may take for its last frame when the node stops.
const stopGrace = time.Second

// What is sent at once, at the most: more is the next write's.
const (
	batchFrames = 16
	batchBytes  = 16 << 10
)

// deliver sends a source's frames to a reader until the terminal one. Where the
// connection can be had, it goes on without the request, which needs a fraction
// of the memory of the HTTP server's; else in the request's goroutine.
func (r *Router) deliver(c echo.Context, from source) error {
	if !r.cfg.Metrics.admitReader(r.limits.Readers) {
		from.Close()
		return wire.Detail(wire.ErrUnavailable, "the node has as many readers as it may")
	}
	d := &delivery{
		router: r, id: streamID(c), grant: c.Get(grantKey).(auth.Grant), from: from,
		signal: make(chan struct{}, 1), ping: r.limits.Ping,
	}
	if isFromNode(c) {
		d.ping = min(d.ping, innerPing)
	}
	c.Response().Committed = true // what follows is not echo's to answer
	req, w := c.Request(), c.Response().Writer
	conn, err := takeOver(req, w, r.limits.Stall, d.gone)
	switch {
	case errors.Is(err, http.ErrNotSupported):
		d.to = newResponse(req, w, r.limits.Stall, d.gone)
		d.begin()
		d.run()
	case err != nil:
		d.closed(reasonGone)
	default:
		d.to, d.prompt = conn, conn.prompt()
		r.serving.also()
		d.done = r.serving.leave
		d.begin()
		go d.run()
	}
	return nil
}

// delivery is one reader: frames from a source to a connection. While it is
// behind it has a goroutine of its own, which may wait for the reader; at the
// tip of its stream it is a crew's.
type delivery struct {
	router *Router
	id     string
	grant  auth.Grant
	from   source
	ping   time.Duration // between comment lines
	to     connection
	prompt prompt // to, if a crew can write to it
	done   func() // called at the end; may be nil

	// Of the goroutine that serves the reader now.
	rest    []byte          // to be sent before all else
	more    <-chan struct{} // what the source waits for; nil after the terminal frame
	last    plane.Kind      // of the frame that was sent last
	pingAt  time.Time
	checkAt time.Time
	timer   *time.Timer // ticks
	forget  func() bool // ends the watch on the node's stop

	// What makes a reader that waits for its stream look up.
	signal chan struct{}        // holds one
	crew   atomic.Pointer[crew] // to be poked, too; nil while it has its own goroutine
	beat   atomic.Bool          // it is time to ping, or to check the authorization
	over   atomic.Value         // the reason to end, a string
}

func (d *delivery) begin() {
	limits := d.router.limits
	// Readers of a node that died should not all come back at once.
	d.rest = sse.Retry(minRetry + rand.IntN(minRetry))
	d.more = now
	d.pingAt, d.checkAt = time.Now().Add(d.ping), time.Now().Add(limits.Recheck)
	d.timer = time.AfterFunc(min(d.ping, limits.Recheck), d.tick)
	d.forget = context.AfterFunc(d.router.stop, func() {
		d.interrupt(reasonStop)
		time.AfterFunc(stopGrace, d.to.cut)
	})
}

// run serves the reader until a crew can, or to its end.
func (d *delivery) run() {
	var b batch
	for {
		reason := d.step(&b, d.to)
		b.count(d.router.cfg.Metrics)
		switch {
		case reason != "":
			d.finish(reason)
			return
		case !isClosed(d.more) && d.router.crews.take(d):
			return
		}
		select {
		case <-d.more:
		case <-d.signal:
		}
	}
}

// finish ends the reader's connection.
func (d *delivery) finish(reason string) {
	d.timer.Stop()
	d.forget()
	d.closed(reason)
	d.to.close()
	if d.done != nil {
		d.done()
	}
}

// closed takes note that the reader is gone.
func (d *delivery) closed(reason string) {
	d.from.Close()
	m := d.router.cfg.Metrics
	m.readerLeft()
	m.readerClosed(reason)
	level := slog.LevelDebug
	if reason == reasonStall {
		level = slog.LevelInfo
	}
	d.router.log.LogAttrs(context.Background(), level, "reader left",
		slog.String("streamId", d.id), slog.String("reason", reason))
}

// interrupt makes the reader's connection end for this reason, if it does not
// end first.
func (d *delivery) interrupt(reason string) {
	if d.over.CompareAndSwap(nil, reason) {
		d.wake()
	}
}

func (d *delivery) gone() { d.interrupt(reasonGone) }

func (d *delivery) tick() {
	d.beat.Store(true)
	d.wake()
}

func (d *delivery) wake() {
	poke(d.signal)
	if c := d.crew.Load(); c != nil {
		poke(c.poked)
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// due reports whether a step has something to do.
func (d *delivery) due() bool {
	return isClosed(d.more) || d.beat.Load() || d.over.Load() != nil
}

// errBehind is a sender's that would have to wait for the reader. It keeps what
// it did not send in the delivery's rest.
var errBehind = errors.New("reader is behind")

// sender is where a step's bytes go: the connection, or a crew.
type sender interface {
	send(buffers [][]byte) error
}

// step does what there is to do now, one batch of frames at the most, and says
// why the connection is to end, "" if it is not.
func (d *delivery) step(b *batch, to sender) (reason string) {
	var err error
	if len(d.rest) > 0 {
		rest := d.rest
		d.rest = nil
		err = to.send([][]byte{rest})
	}
	if err == nil && d.beat.Swap(false) {
		reason, err = d.attend(to)
	}
	over, ended := d.over.Load().(string)
	switch {
	case err != nil || reason != "":
	case ended && over != reasonStop:
		reason = over
	case ended: // its stream may have ended just before
		reason = over
		for d.more = now; err == nil && d.more == now; {
			err = d.drain(b, to)
		}
	default:
		err = d.drain(b, to)
	}
	switch {
	case errors.Is(err, errBehind):
		return ""
	case err != nil:
		return d.failed(err)
	case d.more == nil:
		return string(d.last)
	}
	return reason
}

// attend pings the reader and asks for its authorization again, when it is time.
func (d *delivery) attend(to sender) (reason string, err error) {
	limits := d.router.limits
	at := time.Now()
	if !at.Before(d.checkAt) {
		if !d.allowed(at) {
			return reasonDenied, nil
		}
		d.checkAt = at.Add(limits.Recheck)
	}
	if !at.Before(d.pingAt) {
		err = to.send([][]byte{sse.Ping})
		d.pingAt = at.Add(d.ping)
	}
	d.timer.Reset(max(0, min(time.Until(d.pingAt), time.Until(d.checkAt))))
	return "", err
}

// failed is why a send did not succeed.
func (d *delivery) failed(err error) string {
	switch {
	case d.over.Load() == reasonStop: // it was cut
		return reasonStop
	case errors.Is(err, os.ErrDeadlineExceeded):
		return reasonStall
	default:
		return reasonGone
	}
}

// drain sends one batch of what the source has now, and leaves in d.more what to
// wait for: now if there is more already, nil after the terminal frame.
func (d *delivery) drain(b *batch, to sender) error {
	buffers, bytes, ok := b.buffers[:0], 0, true
	d.more = now
	for ok && d.more == now && len(buffers) < batchFrames && bytes < batchBytes {
		var f plane.Frame
		var more <-chan struct{}
		if f, ok, more = d.from.Poll(); ok {
			d.last = f.Kind
			buffers = append(buffers, f.Encoded(sse.Append))
			bytes += len(buffers[len(buffers)-1])
		}
		if !ok || more != nil {
			d.more = more
		}
	}
	if len(buffers) == 0 {
		return nil
	}
	b.frames += len(buffers)
	b.bytes += bytes
	err := to.send(buffers)
	clear(buffers)
	return err
}

// batch is what a goroutine sends with: room for one send's frames, and the
// number of what was sent.
type batch struct {
	buffers       [batchFrames][]byte
	frames, bytes int
}

// count moves the numbers into the metrics.
func (b *batch) count(m *Metrics) {
	if b.frames > 0 {
		m.sent(b.frames, b.bytes)
		b.frames, b.bytes = 0, 0
	}
}

// now is closed: there is nothing to wait for.
var now <-chan struct{} = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// allowed asks again whether the reader may read: tokens expire.
func (d *delivery) allowed(at time.Time) bool {
	expires := d.grant.Expires()
	return d.grant.Allows(auth.Read, d.id) && (expires.IsZero() || at.Before(expires))
}
