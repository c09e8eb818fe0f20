package router

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/labstack/echo/v4"

	"rillkeep.dev/rillkeep/router/auth"
	"rillkeep.dev/rillkeep/router/sse"
	"rillkeep.dev/rillkeep/router/wire"
)

// Why a reader's connection ended, as the metrics and the log say it.
const (
	reasonEnd    = "end"    // it was sent the terminal frame
	reasonGone   = "gone"   // the client left, or the node stops
	reasonStall  = "stall"  // it took nothing for Limits.Stall
	reasonDenied = "denied" // its authorization is over
)

// batch bounds what is written before a flush, in bytes.
const batch = 64 << 10

// deliver sends a source's frames to a reader until the terminal one. The
// goroutine is the request's own; frames that readers share are encoded once
// for all of them.
func (r *Router) deliver(c echo.Context, from source) error {
	if !r.cfg.Metrics.admitReader(r.limits.Readers) {
		return wire.Detail(wire.ErrUnavailable, "the node has as many readers as it may")
	}
	defer r.cfg.Metrics.readerLeft()
	d := delivery{
		router: r, ctx: c.Request().Context(), w: c.Response().Writer,
		control: http.NewResponseController(c.Response().Writer),
	}
	c.Response().Committed = true // what follows is not echo's to count or answer
	reason := d.run(from, func() bool { return r.stillAllowed(c) })
	r.cfg.Metrics.readerClosed(reason)
	r.log.LogAttrs(context.Background(), slog.LevelDebug, "reader left",
		slog.String("stream", streamID(c)), slog.String("reason", reason))
	return nil
}

// delivery is one reader's connection.
type delivery struct {
	router  *Router
	ctx     context.Context
	w       http.ResponseWriter
	control *http.ResponseController

	renewAt time.Time // when the write deadline is set anew
}

func (d *delivery) run(from source, allowed func() bool) (reason string) {
	sse.SetHeaders(d.w.Header())
	d.w.WriteHeader(http.StatusOK)
	limits := d.router.limits
	now := time.Now()
	ping, check := now.Add(limits.Ping), now.Add(limits.Recheck)
	beat := time.NewTimer(min(limits.Ping, limits.Recheck))
	defer beat.Stop()

	if err := d.write(sse.Retry); err != nil {
		return d.failed(err)
	}
	for {
		more, err := d.drain(from)
		switch {
		case err != nil:
			return d.failed(err)
		case more == nil:
			return reasonEnd
		}
		select {
		case <-more:
			continue
		case <-d.ctx.Done():
			return reasonGone
		case now = <-beat.C:
		}
		if !now.Before(check) {
			if !allowed() {
				return reasonDenied
			}
			check = check.Add(limits.Recheck)
		}
		if !now.Before(ping) {
			if err := d.ping(); err != nil {
				return d.failed(err)
			}
			ping = ping.Add(limits.Ping)
		}
		beat.Reset(max(0, min(time.Until(ping), time.Until(check))))
	}
}

// drain writes what the source has now, and returns what to wait for: nil after
// the terminal frame.
func (d *delivery) drain(from source) (more <-chan struct{}, err error) {
	frames, bytes := 0, 0
	defer func() { d.router.cfg.Metrics.sent(frames, bytes) }()
	for {
		f, ok, more := from.Poll()
		if !ok {
			return more, d.control.Flush()
		}
		wire := f.Encoded(sse.Append)
		if err := d.write(wire); err != nil {
			return nil, err
		}
		frames++
		if bytes += len(wire); bytes >= batch {
			if err := d.control.Flush(); err != nil {
				return nil, err
			}
			d.router.cfg.Metrics.sent(frames, bytes)
			frames, bytes = 0, 0
		}
	}
}

// write puts b on its way with a deadline, renewed so that a write always has
// at least Limits.Stall, without setting it for each.
func (d *delivery) write(b []byte) error {
	if now := time.Now(); !now.Before(d.renewAt) {
		slack := d.router.limits.Stall / 8
		// Not every ResponseWriter has deadlines (httptest's has none).
		_ = d.control.SetWriteDeadline(now.Add(d.router.limits.Stall + slack))
		d.renewAt = now.Add(slack)
	}
	_, err := d.w.Write(b)
	return err
}

func (d *delivery) ping() error {
	if err := d.write(sse.Ping); err != nil {
		return err
	}
	return d.control.Flush()
}

func (d *delivery) failed(err error) string {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return reasonStall
	}
	return reasonGone
}

// stillAllowed asks again whether a reader may read: tokens expire.
func (r *Router) stillAllowed(c echo.Context) bool {
	grant, err := r.grant(c.Request())
	if err != nil {
		return false
	}
	return grant.Allows(auth.Read, streamID(c))
}
