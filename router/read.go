package router

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/sse"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store"
)

// read serves a stream: as events, or as one JSON snapshot to who asks for that.
func (r *Router) read(c echo.Context) error {
	accept := c.Request().Header.Get(echo.HeaderAccept)
	if strings.Contains(accept, typeJSON) && !strings.Contains(accept, sse.ContentType) {
		return r.snapshot(c)
	}
	at, err := sse.ParseRequest(c.Request())
	if err != nil {
		return wire.Detail(wire.ErrBadRequest, "%v", err)
	}
	if r.over(c, at) { // an EventSource that has it all: 204 stops its reconnecting
		return c.NoContent(http.StatusNoContent)
	}
	from, err := r.source(c, at)
	if err != nil {
		return err
	}
	return r.deliver(c, from)
}

// overTime bounds the look whether a reader has everything.
const overTime = 2 * time.Second

// over reports whether a reader that comes back is known to have everything of a stream
// that is sealed. One that can't be told so for the store is served: where the stream
// lives elsewhere that takes no store (I).
func (r *Router) over(c echo.Context, at sse.Position) bool {
	if !at.Resumed {
		return false
	}
	if s, ok := r.cfg.Actors.Stream(streamID(c)); ok {
		st := s.State()
		return st.Status.Ended() && at.Epoch >= s.Epoch() && at.Offset >= st.Durable
	}
	row, err := r.looks.at(c.Request().Context(), streamID(c), func(ctx context.Context, id string) (store.Stream, error) {
		ctx, cancel := context.WithTimeout(ctx, overTime)
		defer cancel()
		return r.rows.Get(ctx, id)
	})
	return err == nil && row.Status.Ended() && at.Epoch >= row.Epoch && at.Offset >= row.Seq
}

// source is where a reader's frames come from. Poll returns the next frame if
// there is one now. If it leaves no other, or there was none, more is closed when
// there may be one; it is nil, too, after the terminal frame. Stream is what the
// next frame comes from, if that is a live one.
type source interface {
	Poll() (f plane.Frame, ok bool, more <-chan struct{})
	Stream() *plane.Live
	Close()
}

// source returns the frames of the plane that the reader asked for.
func (r *Router) source(c echo.Context, at sse.Position) (source, error) {
	id := streamID(c)
	switch c.QueryParam("plane") {
	case "live":
		return r.subscribe(c, at)
	case "durable":
		return r.follow(id, at)
	case "", "auto":
		return r.auto(c, at)
	default:
		return nil, wire.Detail(wire.ErrBadRequest, "plane is auto, live or durable")
	}
}

func (r *Router) subscribe(c echo.Context, at sse.Position) (*plane.Cursor, error) {
	return r.cfg.Actors.Subscribe(c.Request().Context(), actor.Access{
		Principal: c.Get(grantKey), StreamID: streamID(c), From: at.Offset, Epoch: at.Epoch,
	})
}

// auto returns the live plane if it serves the reader, else the durable one.
func (r *Router) auto(c echo.Context, at sse.Position) (source, error) {
	a := &autoSource{router: r, id: streamID(c), at: at}
	live, err := r.subscribe(c, at)
	if err != nil {
		return nil, err
	}
	if a.goLive(live) {
		return a, nil
	}
	if a.rest, err = r.follow(a.id, at); err != nil {
		return nil, err
	}
	return a, nil
}

// autoSource is the live plane while it can serve the reader, and else the
// durable one from where the reader is, until the stream can be read live here
// (again).
type autoSource struct {
	router *Router
	id     string
	at     sse.Position   // where the reader is
	opened bool           // it was sent an open
	told   int64          // newest durable mark that it was sent
	held   []plane.Frame  // to be sent next
	live   *plane.Cursor  // nil while the durable plane serves
	rest   *durableSource // nil while the live plane serves
}

// goLive takes to the live plane if it has a place for the reader, who may also
// be too far behind for it. An open that says nothing new is left out.
func (a *autoSource) goLive(live *plane.Cursor) bool {
	open, _, _ := live.Poll()
	first, some, _ := live.Poll()
	if open.Kind != plane.KindOpen || some && !isLive(first) || a.isAhead(open) {
		live.Close()
		return false
	}
	a.live = live
	if !a.opened || open.From != a.at.Offset || laterEpoch(open.Epoch, a.at.Epoch) {
		a.held = append(a.held, open)
	}
	if some {
		a.held = append(a.held, first)
	}
	return true
}

// isAhead reports whether the reader has more of the text than the live plane here:
// what is attached anew gets its text in a moment. To go there would take the reader
// back from what it has, and that only another epoch may.
func (a *autoSource) isAhead(open plane.Frame) bool {
	return a.opened && open.From < a.at.Offset && open.Epoch <= a.at.Epoch
}

// isLive reports whether f is one of the live plane's own, and does not send the
// reader elsewhere.
func isLive(f plane.Frame) bool { return f.Kind != plane.KindStale && f.Kind != plane.KindAbsent }

func (a *autoSource) Poll() (f plane.Frame, ok bool, more <-chan struct{}) {
	for {
		switch {
		case len(a.held) > 0:
			f, ok, more = a.held[0], true, nil
			a.held = slices.Delete(a.held, 0, 1)
		case a.live != nil:
			f, ok, more = a.live.Poll()
		default:
			f, ok, more = a.rest.Poll()
			if !ok && more != nil {
				back, later := a.comeBack()
				if back {
					continue
				}
				more = a.router.either(more, later)
			}
		}
		switch {
		case !ok:
			return f, ok, more
		case a.live != nil && !isLive(f):
			a.live.Close()
			a.live, a.rest = nil, a.router.goOn(a.id, a.at)
			a.comeBack() // its stream may be live elsewhere by now, or about to be
			continue
		case f.Kind == plane.KindOpen:
			a.opened, a.told = true, min(a.told, f.From)
			a.at = sse.Position{Offset: f.From, Epoch: f.Epoch}
		case f.Kind == plane.KindChunk:
			a.at = sse.Position{Offset: f.Seq, Epoch: f.Epoch}
		case f.Kind == plane.KindDurable && f.Seq <= a.told: // by the other plane, a moment ago
			if more != nil {
				return plane.Frame{}, false, more
			}
			continue
		case f.Kind == plane.KindDurable:
			a.told = f.Seq
		}
		return f, ok, more
	}
}

func (a *autoSource) Stream() *plane.Live {
	if a.live == nil {
		return nil
	}
	return a.live.Stream()
}

// comeBack leaves the durable plane, which has nothing new, for a stream that can be
// read live here by now. If it is being found out whether one can, later tells when
// that is known.
func (a *autoSource) comeBack() (back bool, later <-chan struct{}) {
	live, later := a.router.cfg.Actors.Rejoin(actor.Access{StreamID: a.id, From: a.at.Offset, Epoch: a.at.Epoch})
	if live == nil || !a.goLive(live) {
		return false, later
	}
	a.rest.Close()
	a.rest = nil
	return true, nil
}

// either returns what is closed when more is, or later, which may be nil and is soon
// closed in any case.
func (r *Router) either(more, later <-chan struct{}) <-chan struct{} {
	if later == nil {
		return more
	}
	both := make(chan struct{})
	r.serving.also()
	go func() {
		defer r.serving.leave()
		defer close(both)
		select {
		case <-more:
		case <-later:
		case <-r.stop.Done():
		}
	}()
	return both
}

func (a *autoSource) Close() {
	if a.live != nil {
		a.live.Close()
	}
	if a.rest != nil {
		a.rest.Close()
	}
}
