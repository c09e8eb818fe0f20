package router

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"

	"github.com/labstack/echo/v4"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/web"
	"rillkeep.dev/rillkeep/router/wire"
)

// maxDemos bounds how many sample responses play at once.
const maxDemos = 32

// demos are the sample responses that the node plays itself, detached from
// whoever asked for them.
type demos struct {
	mu      sync.Mutex // guards below
	playing int
	tasks   sync.WaitGroup
}

func (d *demos) start(play func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.playing == maxDemos {
		return false
	}
	d.playing++
	d.tasks.Go(func() {
		defer func() { d.mu.Lock(); d.playing--; d.mu.Unlock() }()
		play()
	})
	return true
}

// demo plays the sample response into a new stream.
func (r *Router) demo(c echo.Context) error {
	id := streamID(c)
	s, err := r.cfg.Actors.Open(c.Request().Context(), plane.Claim{ID: id, Producer: "sample"})
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(c.Request().Context())
	if !r.demos.start(func() { r.play(ctx, s) }) {
		_, err := s.Interrupt(ctx)
		return errors.Join(wire.Detail(wire.ErrUnavailable, "as many samples as may are playing"), err)
	}
	return c.JSON(http.StatusAccepted, map[string]string{"streamId": id})
}

// play pushes the sample at its recorded pace and seals the stream. It ends
// with the stream: a drain seals it under the player's hands.
func (r *Router) play(ctx context.Context, s *plane.Stream) {
	if err := s.Pump(ctx, web.Play); err != nil {
		r.log.LogAttrs(ctx, slog.LevelInfo, "sample stopped", slog.String("stream", s.ID()), slog.Any("error", err))
	}
	if _, err := s.Close(ctx); err != nil {
		r.log.LogAttrs(ctx, slog.LevelWarn, "sample not sealed", slog.String("stream", s.ID()), slog.Any("error", err))
	}
}
