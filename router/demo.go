package router

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v4"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/web"
	"rillkeep.dev/rillkeep/router/wire"
)

// maxDemos bounds how many sample responses play at once.
const maxDemos = 32

// demo plays the sample response into a new stream, detached from whoever asked
// for it.
func (r *Router) demo(c echo.Context) error {
	if r.demos.Add(1) > maxDemos {
		r.demos.Add(-1)
		return wire.Detail(wire.ErrUnavailable, "as many samples as may are playing")
	}
	id := streamID(c)
	s, err := r.openStream(c.Request().Context(), plane.Claim{ID: id, Producer: "sample"})
	if err != nil {
		r.demos.Add(-1)
		return err
	}
	ctx := context.WithoutCancel(c.Request().Context())
	r.serving.also()
	go func() {
		defer r.serving.leave()
		defer r.demos.Add(-1)
		r.play(ctx, s)
	}()
	return c.JSON(http.StatusAccepted, map[string]string{"streamId": id})
}

// play pushes the sample at its recorded pace and seals the stream. It ends
// with the stream: a drain seals it under the player's hands.
func (r *Router) play(ctx context.Context, s *plane.Stream) {
	if err := s.Pump(ctx, web.Play); err != nil {
		r.log.LogAttrs(ctx, slog.LevelInfo, "sample stopped", slog.String("streamId", s.ID()), slog.Any("error", err))
	}
	if _, err := s.Close(ctx); err != nil {
		r.log.LogAttrs(ctx, slog.LevelWarn, "sample not sealed", slog.String("streamId", s.ID()), slog.Any("error", err))
	}
}
