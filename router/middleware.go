package router

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/auth"
	"rillkeep.dev/rillkeep/router/wire"
)

// maxID bounds a stream id, in bytes.
const maxID = 256

const (
	grantKey = "grant"
	idKey    = "id"
)

// counted keeps the router from ending while it answers.
func (r *Router) counted(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !r.serving.enter() {
			return plane.ErrDraining
		}
		defer r.serving.leave()
		return next(c)
	}
}

// observe counts each request and logs it at debug level. The target is the
// route, not the URL: no token and no text can reach the log by it.
func (r *Router) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		began := time.Now()
		if err := next(c); err != nil {
			c.Error(err)
		}
		status := c.Response().Status
		r.cfg.Metrics.request(c.Path(), status)
		if !r.log.Enabled(c.Request().Context(), slog.LevelDebug) {
			return nil
		}
		id, _ := c.Get(idKey).(string)
		grant, _ := c.Get(grantKey).(auth.Grant)
		r.log.LogAttrs(c.Request().Context(), slog.LevelDebug, "request",
			slog.String("method", c.Request().Method), slog.String("route", c.Path()), slog.Int("status", status),
			slog.String("streamId", id), slog.String("subject", grant.Subject()), slog.Duration("took", time.Since(began)))
		return nil
	}
}

// timely gives a client limited time to send its body, also one that nobody
// reads: the server looks for its end before it answers; and to take its answer.
// What goes on for longer sets deadlines of its own.
func (r *Router) timely(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if c.Request().ContentLength != 0 {
			readUntil(c, time.Now().Add(r.limits.BodyTime))
		}
		// Not every ResponseWriter has deadlines (httptest's has none).
		_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Now().Add(r.limits.AnswerTime))
		return next(c)
	}
}

// readUntil sets when a read of the request ends at the latest; the zero time is
// never.
func readUntil(c echo.Context, t time.Time) {
	// Not every ResponseWriter has deadlines (httptest's has none).
	_ = http.NewResponseController(c.Response()).SetReadDeadline(t)
}

// sameSite refuses what a foreign web page makes a browser send: requests that
// change something with the browser's own credentials, and, on a node without
// keys, any request under a host name that is not this machine's.
func (r *Router) sameSite(next echo.HandlerFunc) echo.HandlerFunc {
	var cross http.CrossOriginProtection
	return func(c echo.Context) error {
		req := c.Request()
		if r.cfg.Verifier == nil && !auth.LocalHost(req.Host) {
			return wire.Detail(wire.ErrForeign, "a node without keys answers only to localhost, not to this host name")
		}
		if !hasBearer(req) && cross.Check(req) != nil {
			return wire.Detail(wire.ErrForeign, "the request comes from a page of another site")
		}
		return next(c)
	}
}

// hasBearer reports whether a request has a token in its header, which a page
// must put there itself: a browser adds passwords and cookies, but no token.
func hasBearer(req *http.Request) bool {
	scheme, token, _ := strings.Cut(req.Header.Get(echo.HeaderAuthorization), " ")
	return strings.EqualFold(scheme, "Bearer") && strings.TrimSpace(token) != ""
}

// refusalTime is how long somebody who is not allowed, or comes too early, may take to
// be told: one connection of HTTP/2 may have thousands that take nothing.
const refusalTime = 10 * time.Second

// allow authorizes the operation before anything is looked up (A).
func (r *Router) allow(op auth.Op) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			grant, err := r.grant(c.Request())
			id, _ := c.Get(idKey).(string)
			if err == nil && !grant.Allows(op, id) {
				err = errDenied
			}
			if err != nil {
				writeUntil(c, time.Now().Add(refusalTime))
				return err
			}
			c.Set(grantKey, grant)
			return next(c)
		}
	}
}

// grant returns what the request's token allows.
func (r *Router) grant(req *http.Request) (auth.Grant, error) {
	if r.cfg.Verifier == nil {
		return auth.AllowAll(), nil
	}
	token, _ := auth.FromRequest(req)
	grant, err := r.cfg.Verifier.Verify(token)
	switch {
	case errors.Is(err, auth.ErrNoToken):
		return grant, wire.Detail(wire.ErrUnauthorized, "give a token: Authorization: Bearer …, the cookie rillkeep_token, or access_token")
	case err != nil:
		return grant, wire.Detail(wire.ErrUnauthorized, "%v", err)
	}
	return grant, nil
}

// named checks the stream id in the path.
func (r *Router) named(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		id := c.Param("id")
		if strings.Contains(id, "/") { // of the path's own: a route that ends in an id is given all that is left
			return wire.ErrNoRoute
		}
		if c.Request().URL.RawPath != "" { // echo matched the encoded path
			var err error
			if id, err = url.PathUnescape(id); err != nil {
				return wire.Detail(wire.ErrBadRequest, "the stream id in the path is not percent-encoded well")
			}
		}
		if err := checkID(id); err != nil {
			return err
		}
		c.Set(idKey, id)
		return next(c)
	}
}

func checkID(id string) error {
	switch {
	case id == "" || len(id) > maxID:
		return wire.Detail(wire.ErrBadRequest, "a stream id has 1 to %d bytes", maxID)
	case !utf8.ValidString(id):
		return wire.Detail(wire.ErrBadRequest, "a stream id is UTF-8")
	}
	for _, c := range id {
		if !unicode.IsPrint(c) {
			return wire.Detail(wire.ErrBadRequest, "a stream id has printable characters only")
		}
	}
	return nil
}

// streamID returns the id that named checked.
func streamID(c echo.Context) string { return c.Get(idKey).(string) }
