package router

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/generate"
	"rillkeep.dev/rillkeep/router/peer"
	"rillkeep.dev/rillkeep/router/upstream"
	"rillkeep.dev/rillkeep/router/wire"
)

const (
	// streamHeader names the stream that a response lives on as, percent-encoded as in
	// paths. A request may choose it.
	streamHeader = "X-Rillkeep-Stream-Id"

	// retryHeader tells the providers' own clients whether to repeat a call by
	// themselves. One that has a stream is not to be: the server has tried, and the id
	// is taken.
	retryHeader = "X-Should-Retry"
)

// chosen takes the stream id from the header, or makes one.
func (r *Router) chosen(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		id := "completion-" + strings.ToLower(rand.Text())
		if given := c.Request().Header.Get(streamHeader); given != "" {
			var err error
			if id, err = url.PathUnescape(given); err != nil {
				return wire.Detail(wire.ErrBadRequest, "the stream id in %s is not percent-encoded well", streamHeader)
			}
			if err := checkID(id); err != nil {
				return err
			}
		}
		c.Set(idKey, id)
		c.Response().Header().Set(streamHeader, url.PathEscape(id))
		return next(c)
	}
}

// completions answers a chat completion as the provider does, from the node that has
// the stream.
func (r *Router) completions(c echo.Context) error {
	if r.servesItself(c) {
		return r.left(c, r.complete(c))
	}
	body, err := r.body(c, r.limits.GenerateBytes)
	if err != nil {
		return err
	}
	c.Request().Body = io.NopCloser(bytes.NewReader(body))
	writeUntil(c, time.Time{}) // a model may think for long
	ctx := peer.Quiet(c.Request().Context())
	return r.route(c, r.complete, false, func(member string) (*http.Response, error) {
		resp, _, err := r.ask(ctx, streamID(c), member, func(ctx context.Context) (*http.Request, error) {
			return http.NewRequestWithContext(ctx, http.MethodPost, peerURL(streamID(c), "/completions"), bytes.NewReader(body))
		})
		return resp, err
	})
}

// complete calls a model into a new stream, and answers with what the provider sends as
// it comes. The call goes on if the client leaves.
func (r *Router) complete(c echo.Context) error {
	body, err := r.body(c, r.limits.GenerateBytes)
	if err != nil {
		return err
	}
	job, err := r.generator.Completion(body)
	if err != nil {
		return r.noJob(err)
	}
	reply := newReply(r.limits.ResponseBytes)
	defer reply.leave()
	job.Copy = reply
	o, err := newOrder(streamID(c), job, "", nil)
	if err != nil {
		return err
	}
	o.end = reply.end
	_, isNew, err := r.begin(c.Request().Context(), o)
	switch other, ok := errors.AsType[*heldBy](err); {
	case ok:
		return other
	case err == nil && !isNew:
		err = wire.Detail(plane.ErrExists, "this response has been asked for already: read its stream")
	}
	if err != nil {
		if isTaken(err) {
			c.Response().Header().Set(retryHeader, "false")
		}
		return err
	}
	return r.deliverReply(c, reply)
}

// deliverReply writes a provider's response to a client.
func (r *Router) deliverReply(c echo.Context, from *reply) error {
	writeUntil(c, time.Time{})
	control := http.NewResponseController(c.Response())
	for {
		p, err := from.next(c.Request().Context())
		if len(p) > 0 {
			if !c.Response().Committed {
				from.head(c.Response().Header())
				c.Response().WriteHeader(http.StatusOK)
			}
			writeUntil(c, time.Now().Add(r.limits.Stall))
			if _, err := c.Response().Write(p); err != nil {
				return nil // the client is gone
			}
			if err := control.Flush(); err != nil {
				return nil
			}
			writeUntil(c, time.Time{})
		}
		switch {
		case err == nil:
			continue
		case err == io.EOF && c.Response().Committed, c.Request().Context().Err() != nil:
			return nil
		case !c.Response().Committed:
			return refuseCompletion(c, err)
		case errors.Is(err, errSlowClient):
			r.log.LogAttrs(c.Request().Context(), slog.LevelWarn, "client is too slow for the response that it asked for, and is cut off",
				slog.String("streamId", streamID(c)), slog.Int("bytes", r.limits.ResponseBytes))
		}
		panic(http.ErrAbortHandler) // half a response must not look like a whole one
	}
}

// writeUntil sets when a write of the answer ends at the latest; the zero time is
// never.
func writeUntil(c echo.Context, t time.Time) {
	// Not every ResponseWriter has deadlines (httptest's has none).
	_ = http.NewResponseController(c.Response()).SetWriteDeadline(t)
}

// refuseCompletion answers a call that failed before there was anything of a response:
// with the provider's own status, if that is about the request, and what it said as far
// as it is fit for others.
func refuseCompletion(c echo.Context, err error) error {
	c.Response().Header().Set(retryHeader, "false")
	said := wire.FromError(wire.Detail(wire.ErrUpstream, "%v", err))
	refused, isRefusal := errors.AsType[*generate.StatusError](err)
	switch {
	case err == io.EOF:
		return wire.Detail(wire.ErrUpstream, "%v", upstream.ErrEmpty)
	case errors.Is(err, plane.ErrCancelled):
		return err
	case errors.Is(err, plane.ErrClosed), errors.Is(err, plane.ErrFenced), errors.Is(err, plane.ErrMoved):
		return wire.Detail(wire.ErrUnavailable, "the stream was ended by another: %v", err)
	case errors.Is(err, generate.ErrSilent), errors.Is(err, generate.ErrSlow):
		said.Status = http.StatusGatewayTimeout
	case isRefusal && isAboutRequest(refused.Status):
		said.Status = refused.Status
		if refused.RetryAfter > 0 {
			c.Response().Header().Set(echo.HeaderRetryAfter, strconv.Itoa(int((refused.RetryAfter+time.Second-1)/time.Second)))
		}
	}
	return said
}

// isAboutRequest reports whether a provider's status is one for whoever asked. That it
// does not take the server's key is not.
func isAboutRequest(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusPaymentRequired, http.StatusNotFound, http.StatusConflict, http.StatusRequestEntityTooLarge,
		http.StatusUnprocessableEntity, http.StatusTooManyRequests:
		return true
	default:
		return false
	}
}
