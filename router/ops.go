package router

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"rillkeep.dev/rillkeep/store"
)

// readyTimeout bounds the look at the store for /readyz.
const readyTimeout = 2 * time.Second

// health answers that the process serves requests.
func (r *Router) health(c echo.Context) error {
	return c.JSON(http.StatusOK, map[string]string{"status": "ok"})
}

// ready answers whether the node should be sent requests: not while it drains,
// and not without its store, or its lease on that.
func (r *Router) ready(c echo.Context) error {
	if reason := r.unready(c.Request().Context()); reason != "" {
		c.Response().Header().Set("Retry-After", retryAfter)
		return c.JSON(http.StatusServiceUnavailable, map[string]string{"status": "not ready", "reason": reason})
	}
	return c.JSON(http.StatusOK, map[string]string{"status": "ready"})
}

// unready is why the node should not be sent requests; "" if it should.
func (r *Router) unready(ctx context.Context) string {
	if r.cfg.Actors.Draining() {
		return "draining"
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	switch err := r.cfg.Store.Ping(ctx); {
	case errors.Is(err, store.ErrNoLease):
		return "no lease on the store"
	case err != nil:
		return "store is not reachable"
	default:
		return ""
	}
}
