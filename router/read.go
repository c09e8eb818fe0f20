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
		return r.follow(id, at, true)
	case "", "auto":
		if _, ok := r.cfg.Actors.Stream(id); !ok {
			return r.follow(id, at, true)
		}
		live, err := r.subscribe(c, at)
		if err != nil {
			return nil, err
		}
		return &autoSource{router: r, id: id, live: live, at: at}, nil
	default:
		return nil, wire.Detail(wire.ErrBadRequest, "plane is auto, live or durable")
	}
}

func (r *Router) subscribe(c echo.Context, at sse.Position) (*plane.Cursor, error) {
	return r.cfg.Actors.Subscribe(c.Request().Context(), actor.Access{
		Principal: c.Get(grantKey), StreamID: streamID(c), From: at.Offset, Epoch: at.Epoch,
	})
}

// autoSource is the live plane as long as it can serve, then the durable one
// from where the reader is. The reader sees one open and one end.
type autoSource struct {
	router *Router
	id     string
	at     sse.Position // where the reader is
	live   *plane.Cursor
	opened bool
	rest   source // the durable plane, once the live one could not go on
}

func (a *autoSource) Poll() (plane.Frame, bool, <-chan struct{}) {
	if a.rest != nil {
		return a.rest.Poll()
	}
	f, ok, more := a.live.Poll()
	switch {
	case !ok:
		return f, ok, more
	case f.Kind == plane.KindStale || f.Kind == plane.KindAbsent:
		rest, err := a.router.follow(a.id, a.at, !a.opened)
		if err != nil {
			return plane.Frame{Kind: plane.KindAbsent}, true, nil
		}
		a.rest = rest
		return a.rest.Poll()
	case f.Kind == plane.KindOpen:
		a.opened = true
		a.at = sse.Position{Offset: f.From, Epoch: f.Epoch}
	case f.Kind == plane.KindChunk:
		a.at.Offset = f.Seq
	}
	return f, true, more
}

func (a *autoSource) Close() {
	a.live.Close()
	if a.rest != nil {
		a.rest.Close()
	}
}
