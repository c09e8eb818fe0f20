package router

import (
	"errors"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/sse"
	"rillkeep.dev/rillkeep/router/wire"
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
	over, err := r.over(c, at)
	switch {
	case err != nil:
		return err
	case over: // an EventSource that has it all: 204 stops its reconnecting
		return c.NoContent(http.StatusNoContent)
	}
	from, err := r.source(c, at)
	if err != nil {
		return err
	}
	return r.deliver(c, from)
}

// over reports whether a reader that comes back has everything of a stream that
// is sealed.
func (r *Router) over(c echo.Context, at sse.Position) (bool, error) {
	if !at.Resumed {
		return false, nil
	}
	if s, ok := r.cfg.Actors.Stream(streamID(c)); ok {
		st := s.State()
		return st.Status.Ended() && at.Epoch >= s.Epoch() && at.Offset >= st.Durable, nil
	}
	row, err := r.cfg.Store.Get(c.Request().Context(), streamID(c))
	if errors.Is(err, plane.ErrNotFound) {
		return false, nil
	}
	return err == nil && row.Status.Ended() && at.Epoch >= row.Epoch && at.Offset >= row.Seq, err
}

// source is where a reader's frames come from. Poll returns the next frame if
// there is one now. If it leaves no other, or there was none, more is closed when
// there may be one; it is nil, too, after the terminal frame.
type source interface {
	Poll() (f plane.Frame, ok bool, more <-chan struct{})
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
	live, err := r.subscribe(c, at)
	if err != nil {
		return nil, err
	}
	first, _, _ := live.Poll()
	if first.Kind != plane.KindOpen {
		live.Close()
		return r.follow(streamID(c), at)
	}
	return &autoSource{router: r, id: streamID(c), live: live, first: &first}, nil
}

// autoSource is the live plane as long as it can serve, then the durable one
// from where the reader is.
type autoSource struct {
	router *Router
	id     string
	live   *plane.Cursor
	first  *plane.Frame   // the open, until it was given out
	at     sse.Position   // where the reader is
	rest   *durableSource // once the live plane could not go on
}

func (a *autoSource) Poll() (plane.Frame, bool, <-chan struct{}) {
	if a.rest != nil {
		return a.rest.Poll()
	}
	if f := a.first; f != nil {
		a.first = nil
		a.at = sse.Position{Offset: f.From, Epoch: f.Epoch}
		return *f, true, nil
	}
	f, ok, more := a.live.Poll()
	switch {
	case !ok:
	case f.Kind == plane.KindStale || f.Kind == plane.KindAbsent:
		a.rest = a.router.goOn(a.id, a.at)
		return a.rest.Poll()
	case f.Kind == plane.KindChunk:
		a.at.Offset = f.Seq
	}
	return f, ok, more
}

func (a *autoSource) Close() {
	a.live.Close()
	if a.rest != nil {
		a.rest.Close()
	}
}
