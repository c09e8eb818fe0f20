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
// connection can be had, it goes on in a goroutine of its own, which needs a
// fraction of the memory of the HTTP server's; else in the request's.
func (r *Router) deliver(c echo.Context, from source) error {
	if !r.cfg.Metrics.admitReader(r.limits.Readers) {
		from.Close()
		return wire.Detail(wire.ErrUnavailable, "the node has as many readers as it may")
	}
	d := &delivery{
		router: r, id: streamID(c), grant: c.Get(grantKey).(auth.Grant), from: from,
		signal: make(chan struct{}, 1),
	}
	c.Response().Committed = true // what follows is not echo's to answer
	req, w := c.Request(), c.Response().Writer
	conn, err := takeOver(req, w, r.limits.Stall, d.gone)
	switch {
	case errors.Is(err, http.ErrNotSupported):
		d.to = newResponse(req, w, r.limits.Stall, d.gone)
		d.run()
	case err != nil:
		d.closed(reasonGone)
	default:
		d.to = conn
		r.serving.also()
		go func() {
			defer r.serving.leave()
			d.run()
		}()
	}
	return nil
}

// delivery is one reader: frames from a source to a connection.
type delivery struct {
	router *Router
	id     string
	grant  auth.Grant
	from   source
	to     connection
	batch  [batchFrames][]byte

	// What makes a reader that waits for its stream look up: one channel, so
	// that the wait is for two things and not for five.
	signal chan struct{} // holds one
	beat   atomic.Bool   // it is time to ping, or to check the authorization
	over   atomic.Value  // the reason to end, a string
	last   plane.Kind    // of the frame that was sent last
}

func (d *delivery) run() {
	defer d.to.close()
	d.closed(d.deliver())
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
	select {
	case d.signal <- struct{}{}:
	default:
	}
}

// deliver sends until there is a reason not to.
func (d *delivery) deliver() (reason string) {
	defer context.AfterFunc(d.router.stop, func() {
		d.interrupt(reasonStop)
		time.AfterFunc(stopGrace, d.to.cut)
	})()
	limits := d.router.limits
	pingAt, checkAt := time.Now().Add(limits.Ping), time.Now().Add(limits.Recheck)
	timer := time.AfterFunc(min(limits.Ping, limits.Recheck), d.tick)
	defer timer.Stop()
	// Readers of a node that died should not all come back at once.
	err := d.to.send([][]byte{sse.Retry(minRetry + rand.IntN(minRetry))})
	for {
		var more <-chan struct{}
		if err == nil {
			more, err = d.drain()
		}
		switch {
		case err != nil:
			return d.failed(err)
		case more == nil:
			return string(d.last)
		}
		select {
		case <-d.signal:
		default:
			select {
			case <-more:
				continue
			case <-d.signal:
			}
		}
		if reason, ok := d.over.Load().(string); ok {
			if reason == reasonStop { // its stream may have ended just before
				if more, err = d.drain(); err == nil && more == nil {
					return string(d.last)
				}
			}
			return reason
		}
		if !d.beat.Swap(false) {
			continue
		}
		at := time.Now()
		if !at.Before(checkAt) {
			if !d.allowed(at) {
				return reasonDenied
			}
			checkAt = at.Add(limits.Recheck)
		}
		if !at.Before(pingAt) {
			err = d.to.send([][]byte{sse.Ping})
			pingAt = at.Add(limits.Ping)
		}
		timer.Reset(max(0, min(time.Until(pingAt), time.Until(checkAt))))
	}
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

// drain sends what the source has now, unless something else is to be seen to
// first, and returns what to wait for: nil after the terminal frame.
func (d *delivery) drain() (more <-chan struct{}, err error) {
	for {
		frames, bytes, ok := 0, 0, true
		for ok && more == nil && frames < batchFrames && bytes < batchBytes {
			var f plane.Frame
			if f, ok, more = d.from.Poll(); ok {
				d.last = f.Kind
				d.batch[frames] = f.Encoded(sse.Append)
				bytes += len(d.batch[frames])
				frames++
			}
		}
		if frames > 0 {
			if err := d.to.send(d.batch[:frames]); err != nil {
				return nil, err
			}
			clear(d.batch[:frames])
			d.router.cfg.Metrics.sent(frames, bytes)
		}
		switch {
		case !ok || more != nil:
			return more, nil
		case len(d.signal) > 0: // a reader that is behind may be so for long
			return now, nil
		}
	}
}

// now is closed: there is nothing to wait for.
var now = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// allowed asks again whether the reader may read: tokens expire.
func (d *delivery) allowed(at time.Time) bool {
	expires := d.grant.Expires()
	return d.grant.Allows(auth.Read, d.id) && (expires.IsZero() || at.Before(expires))
}
