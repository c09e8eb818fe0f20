package router

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v4"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/wire"
)

// errDenied is the one answer of a denial, whether or not the stream exists.
var errDenied = wire.Detail(plane.ErrDenied, "the token does not allow this")

// retryAfter is what a 503 tells clients to wait, in seconds.
const retryAfter = "1"

// writeError answers with the API's form of err, unless the answer has begun.
func (r *Router) writeError(err error, c echo.Context) {
	said := wire.FromError(fromEcho(err))
	if errors.Is(said, wire.ErrInternal) && c.Request().Context().Err() == nil {
		id, _ := c.Get(idKey).(string)
		r.log.LogAttrs(context.Background(), slog.LevelError, "request failed",
			slog.String("route", c.Path()), slog.String("streamId", id), slog.Any("error", err))
	}
	if c.Response().Committed {
		return
	}
	if said.Status == http.StatusServiceUnavailable {
		c.Response().Header().Set("Retry-After", retryAfter)
	}
	if said.Status == http.StatusUnauthorized {
		c.Response().Header().Set("WWW-Authenticate", `Bearer realm="rillkeep"`)
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	_ = c.JSON(said.Status, wire.ErrorBody{Error: said}) // the client is gone: nothing left to tell
}

// fromEcho turns the errors that echo makes itself into the API's.
func fromEcho(err error) error {
	var he *echo.HTTPError
	if !errors.As(err, &he) {
		return err
	}
	switch he.Code {
	case http.StatusNotFound:
		return wire.ErrNoRoute
	case http.StatusMethodNotAllowed:
		return wire.ErrMethod
	case http.StatusRequestEntityTooLarge:
		return wire.ErrTooLarge
	case http.StatusBadRequest:
		return wire.ErrBadRequest
	default:
		return err
	}
}
