package router

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

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
// with the stream: a drain seals it under the player's hands, or hands it over to
// a node that has no player for it.
func (r *Router) play(ctx context.Context, s *plane.Stream) {
	err := s.Pump(ctx, web.Play)
	switch {
	case errors.Is(err, plane.ErrMoved):
		err = r.interruptElsewhere(ctx, s.ID())
	default:
		if err != nil {
			r.log.LogAttrs(ctx, slog.LevelInfo, "sample stopped", slog.String("streamId", s.ID()), slog.Any("error", err))
		}
		_, err = s.Close(ctx)
	}
	if err != nil {
		r.log.LogAttrs(ctx, slog.LevelWarn, "sample not sealed", slog.String("streamId", s.ID()), slog.Any("error", err))
	}
}

const (
	elsewhereTime  = 10 * time.Second // for a stream to be adopted, and sealed
	elsewherePause = 200 * time.Millisecond
)

// interruptElsewhere seals a stream whose producer was here, and that is another
// node's now (L).
func (r *Router) interruptElsewhere(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, elsewhereTime)
	defer cancel()
	body, err := json.Marshal(wire.Close{Status: plane.StatusInterrupted})
	if err != nil {
		return fmt.Errorf("interrupt elsewhere: %w", err)
	}
	again := time.NewTicker(elsewherePause)
	defer again.Stop()
	for {
		resp, _, err := r.ask(ctx, id, r.place(id), func(ctx context.Context) (*http.Request, error) {
			return http.NewRequestWithContext(ctx, http.MethodPost, peerURL(id, "/close"), bytes.NewReader(body))
		})
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("another node answered %d", resp.StatusCode)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}
