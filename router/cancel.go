package router

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v4"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store/feed"
)

// cancel asks a stream to stop, and answers the stream as it was then: what the
// stop has led to meanwhile is not its answer, or who asked would take his own
// stop for another's. Where its actor is here the stop takes effect at once, and
// the seal makes it durable, whether or not the store takes the row's flag now;
// elsewhere the flag is all there is, and the change that tells of it.
func (r *Router) cancel(c echo.Context) error {
	id := streamID(c)
	st, here := r.stopHere(id)
	row, err := r.rows.Cancel(c.Request().Context(), id)
	if again, ok := r.stopHere(id); !here { // one opened meanwhile need not have seen the flag
		st, here = again, ok
	}
	switch {
	case here && err != nil:
		r.log.LogAttrs(context.Background(), slog.LevelWarn, "stop is not in the store yet",
			slog.String("streamId", id), slog.Any("error", err))
	case err != nil:
		return err
	}
	if row.Cancel && row.Status == plane.StatusStreaming {
		r.Announce(feed.Change{ID: id, Seq: row.Seq, Epoch: row.Epoch, Cancel: true})
		if !here && !isFromNode(c) {
			r.cancelAt(c, row)
		}
	}
	sealed := wire.Sealed{Status: row.Status, Seq: row.Seq, DurableSeq: row.Seq}
	if here {
		sealed = wire.Sealed{Status: st.Status, Seq: st.Seq, DurableSeq: st.Durable}
	}
	return c.JSON(http.StatusAccepted, sealed)
}

// cancelAt tells the member that has a stream of its cancel, which the row has: that
// is faster than any feed. Nobody waits for it.
func (r *Router) cancelAt(c echo.Context, row plane.Row) {
	member, ok := r.host(row)
	if !ok {
		return
	}
	id := streamID(c)
	ctx, stop := context.WithTimeout(r.stop, whereTime)
	req, err := forwarded(ctx, c.Request(), nil, 0)
	if err != nil {
		stop()
		return
	}
	r.serving.also()
	go func() {
		defer r.serving.leave()
		defer stop()
		if resp, err := r.send(ctx, id, member, req); err == nil {
			_ = resp.Body.Close()
		}
	}()
}

// stopHere asks the stream to stop that is live or lingering here, if one is, and
// answers how it was. One that goes to another node takes along only what the row
// says.
func (r *Router) stopHere(id string) (plane.State, bool) {
	s, ok := r.cfg.Actors.Stream(id)
	if !ok {
		return plane.State{}, false
	}
	st := s.State()
	s.Cancel()
	return st, !errors.Is(s.Refusal(), plane.ErrMoved)
}
