package router

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// readyTimeout bounds the look at the store for /readyz.
const readyTimeout = 2 * time.Second

// health answers that the process serves requests.
func (r *Router) health(c echo.Context) error {
	return c.JSON(http.StatusOK, map[string]string{"status": "ok"})
}

// ready answers whether the node should be sent requests: not while it drains,
// and not without its store.
func (r *Router) ready(c echo.Context) error {
	reason := ""
	ctx, cancel := context.WithTimeout(c.Request().Context(), readyTimeout)
	defer cancel()
	switch {
	case r.cfg.Actors.Draining():
		reason = "draining"
	case r.cfg.Store.Ping(ctx) != nil:
		reason = "store is not reachable"
	}
	if reason != "" {
		c.Response().Header().Set("Retry-After", retryAfter)
		return c.JSON(http.StatusServiceUnavailable, map[string]string{"status": "not ready", "reason": reason})
	}
	return c.JSON(http.StatusOK, map[string]string{"status": "ready"})
}
