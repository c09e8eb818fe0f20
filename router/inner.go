package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/auth"
	"rillkeep.dev/rillkeep/router/peer"
	"rillkeep.dev/rillkeep/router/sse"
	"rillkeep.dev/rillkeep/router/wire"
)

// innerPing is how often another node hears that a stream it is attached to is
// still served: several times before it would take the silence for an end.
const innerPing = 5 * time.Second

// Inner is the handler of the node's listener for other nodes: who gets there has
// been found to be one. What the end reader or producer may do was decided where
// they asked (A). A request is answered here, or with 421 and who has the stream.
func (r *Router) Inner() http.Handler {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = r.writeError
	e.Use(r.counted, r.observe, r.timely, r.fromNode)

	stream := func(method, action string, serve echo.HandlerFunc) {
		e.Add(method, "/v1/streams/:id"+action, serve, r.named, r.directed)
	}
	stream(http.MethodGet, "", r.attached)
	stream(http.MethodGet, "/where", r.answerWhere)
	stream(http.MethodPost, "", r.open)
	stream(http.MethodPost, "/append", r.append)
	e.POST("/v1/streams/:id/pump", r.pump, duplex, r.named, r.directed)
	stream(http.MethodPost, "/flush", r.flush)
	stream(http.MethodPost, "/keepalive", r.keepAlive)
	stream(http.MethodPost, "/close", r.close)
	stream(http.MethodPost, "/fail", r.fail)
	stream(http.MethodPost, "/cancel", r.cancel)
	stream(http.MethodPost, "/adopt", r.adopt)
	stream(http.MethodPost, "/generate", r.generate)
	stream(http.MethodPost, "/completions", r.complete)
	e.POST("/demo/streams/:id", r.demo, r.named, r.directed)
	e.GET("/v1/node", r.describeNode)
	return e
}

// fromNode marks a request as another node's.
func (r *Router) fromNode(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		caller, ok := peer.From(c.Request().Context())
		if !ok {
			return wire.ErrUnauthorized
		}
		c.Set(nodeKey, caller.Name)
		c.Set(grantKey, auth.AllowAll())
		if ring := c.Request().Header.Get(ringHeader); ring != "" && ring != r.cfg.Cluster.Digest() {
			// For diagnosis: while members come and go it is a matter of course.
			r.cfg.Metrics.ringDiffers()
			r.log.LogAttrs(c.Request().Context(), slog.LevelDebug, "another node has another ring",
				slog.String("member", caller.Name), slog.String("theirs", ring), slog.String("ours", r.cfg.Cluster.Digest()))
		}
		return next(c)
	}
}

// directed answers with 421 what is for another node.
func (r *Router) directed(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := next(c); err != nil {
			return r.misdirected(c, err)
		}
		return nil
	}
}

// Tell tells the member that has a stream, by its row, that it is asked for: if it has
// it not, it sees to the row. Who lost the stream to it does that.
func (r *Router) Tell(ctx context.Context, id string) error {
	row, err := r.rows.Get(ctx, id)
	if err != nil {
		return err
	}
	if member, ok := r.host(row.Row); ok {
		_, err = r.where(ctx, id, member)
	}
	return err
}

// answerWhere answers 204 where the stream is here.
func (r *Router) answerWhere(c echo.Context) error {
	if _, err := r.live(c); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// attached serves another node's readers of a stream, all by one: the live plane's
// frames as they are, absent if it is nowhere.
func (r *Router) attached(c echo.Context) error {
	at, err := sse.ParseRequest(c.Request())
	if err != nil {
		return wire.Detail(wire.ErrBadRequest, "%v", err)
	}
	if c.Request().Header.Get(echo.HeaderAccept) == typeJSON {
		return r.snapshot(c)
	}
	cursor, err := r.cfg.Actors.Subscribe(c.Request().Context(), actor.Access{
		Principal: c.Get(grantKey), StreamID: streamID(c), From: at.Offset, Epoch: at.Epoch, Local: true,
	})
	if err != nil {
		return err
	}
	if s := cursor.Stream(); s != nil {
		c.Response().Header().Set(epochHeader, strconv.FormatInt(s.Epoch(), 10))
	} else { // not here: whose row is it?
		row, err := r.rows.Get(c.Request().Context(), streamID(c))
		r.stray(row)
		switch member, ok := r.host(row.Row); {
		case err == nil && ok:
			return &heldBy{member: member}
		case err != nil && !errors.Is(err, plane.ErrNotFound):
			return err
		}
	}
	return r.deliver(c, cursor)
}

// AskToAdopt has a member adopt a stream that was disowned here.
func (r *Router) AskToAdopt(ctx context.Context, member, id string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, peerURL(id, "/adopt"), nil)
	if err != nil {
		return fmt.Errorf("ask for adoption: %w", err)
	}
	resp, err := r.do(ctx, member, req)
	if err != nil {
		return fmt.Errorf("ask %s for adoption: %w", member, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("ask %s for adoption: %w", member, refusal(resp))
	}
	return nil
}

// adopt takes over a stream that another node gives up. That its producer was here
// before, and had it adopted, is as good.
func (r *Router) adopt(c echo.Context) error {
	ctx, id := c.Request().Context(), streamID(c)
	s, err := r.cfg.Actors.Adopt(ctx, id)
	if errors.Is(err, plane.ErrOpenHere) {
		if here, ok := r.cfg.Actors.Await(ctx, id); ok {
			s, err = here, nil
		}
	}
	if err != nil {
		return err
	}
	r.log.LogAttrs(ctx, slog.LevelInfo, "stream adopted",
		slog.String("streamId", id), slog.Int64("epoch", s.Epoch()), slog.String("from", c.Get(nodeKey).(string)))
	return c.JSON(http.StatusOK, opened(s, plane.ProducerEpoch{}))
}
