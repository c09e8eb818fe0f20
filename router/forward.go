package router

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/auth"
	"rillkeep.dev/rillkeep/router/peer"
	"rillkeep.dev/rillkeep/router/wire"
)

const (
	// hostHeader of a 421 between nodes names the member that has the stream.
	hostHeader = peer.Prefix + "Host"

	// ringHeader of a request between nodes is Cluster.Digest of who asks.
	ringHeader = peer.Prefix + "Ring"

	// maxHops is how many members are asked for one request, the second by what
	// the first knew.
	maxHops = 2

	// whereTime bounds the question who has a stream.
	whereTime = 2 * time.Second
)

var (
	// errNoHost says that the member that has a stream can't be asked now.
	errNoHost = wire.Detail(wire.ErrUnavailable, "the node that has the stream can't be reached now; try again")

	// errOurs says that, as the member knows that was asked, this node has the stream,
	// or is to open it.
	errOurs = fmt.Errorf("another node sends it back: %w", errNoHost)

	// errGone says that the member that a row names has left the cluster.
	errGone = wire.Detail(wire.ErrUnavailable, "the node that had the stream is gone; unless its producer resumes it, it ends interrupted within a minute")

	// errLeft is errGone of a stream that an earlier run of this node left.
	errLeft = wire.Detail(wire.ErrUnavailable, "the node was restarted while it had the stream; unless its producer resumes it, it ends interrupted within a minute")

	// errStray says that a stream is this node's by its row and not here: what made it so
	// was broken off, and is being undone.
	errStray = wire.Detail(wire.ErrUnavailable, "the stream is on its way from node to node; try again")

	// errLease says that a stream can't be taken over yet.
	errLease = wire.Detail(wire.ErrUnavailable, "the node that had the stream may have it still; its lease ends within seconds: try again")

	// errWaits says that this node can't write the stream that it has.
	errWaits = wire.Detail(wire.ErrUnavailable, "the node that has the stream can't write it now, and others can: resume it there")

	// errNoAnswer says that a member was asked, and what it answered is lost.
	errNoAnswer = wire.Detail(wire.ErrNoAnswer, "the node that has the stream gave no answer: the call may have been done; repeat an append with its offset")
)

// owned makes a request that belongs to a stream's owner reach it: served here, if
// the stream is here or is to be opened here, else by the member that has it. The
// body is read first, so that a second can be sent what the first did not take.
func (r *Router) owned(next echo.HandlerFunc) echo.HandlerFunc {
	return r.ownedUpTo(max(maxBody, r.limits.AppendBytes), next)
}

// ownedUpTo is owned for a body of at most limit bytes.
func (r *Router) ownedUpTo(limit int64, next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if r.servesItself(c) {
			return r.left(c, next(c))
		}
		body, err := r.body(c, limit)
		if err != nil {
			return err
		}
		c.Request().Body = io.NopCloser(bytes.NewReader(body))
		ctx, cancel := context.WithTimeout(c.Request().Context(), r.limits.AnswerTime)
		defer cancel()
		replay := r.cfg.FlyReplay && mayReplay(c.Request(), len(body))
		return r.route(c, next, replay, func(member string) (*http.Response, error) {
			resp, _, err := r.ask(ctx, streamID(c), member, func(ctx context.Context) (*http.Request, error) {
				return forwarded(ctx, c.Request(), bytes.NewReader(body), int64(len(body)))
			})
			return resp, err
		})
	}
}

// ownedPump is owned for a body without a bound: who has the stream is asked
// before any of it is sent. It is sent by a pipe, since a read of it ends with
// nothing but the client, and would hold up the end of what it is sent to.
func (r *Router) ownedPump(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if r.servesItself(c) {
			return r.left(c, next(c))
		}
		in, out := io.Pipe()
		var body sync.WaitGroup
		defer func() {
			_ = in.Close()
			end := time.Now()
			if c.Response().Committed {
				end = end.Add(lastWord)
			}
			readUntil(c, end)
			body.Wait()
		}()
		return r.route(c, next, false, func(member string) (*http.Response, error) {
			ctx, id := c.Request().Context(), streamID(c)
			member, err := r.where(ctx, id, member)
			if err != nil {
				return nil, err
			}
			ctx = peer.Quiet(ctx) // a producer may pause, and then there is nothing to acknowledge
			req, err := forwarded(ctx, c.Request(), in, c.Request().ContentLength)
			if err != nil {
				return nil, err
			}
			readUntil(c, time.Time{})
			body.Go(func() { take(out, c.Request().Body) })
			resp, err := r.send(ctx, id, member, req)
			if errors.Is(err, plane.ErrHeld) { // it has gone since, and part of the body is on its way
				return nil, goneOn(c)
			}
			return resp, err
		})
	}
}

// goneOn is what the producer of a pump is told whose stream went to another node before
// it took anything: it begins again where it began, if it said where that is.
func goneOn(c echo.Context) error {
	to, err := producing(c)
	if err != nil || to.from < 0 {
		return errNoHost
	}
	return &plane.OffsetError{Kind: plane.ErrMoved, From: to.from, Want: to.from}
}

// take copies a body to a pipe. A read of a body does not end with a context,
// so that it is done here, where nobody waits for it. What the pipe does not
// take any more is thrown away.
func take(to *io.PipeWriter, body io.Reader) {
	_, err := io.Copy(to, body)
	_ = to.CloseWithError(err)
	_, _ = io.Copy(io.Discard, body)
}

// servesItself reports whether a request is this node's to serve without asking
// where its stream is: it is alone, or has the stream. A request that came from a
// node is never sent on.
func (r *Router) servesItself(c echo.Context) bool {
	return r.cfg.Cluster == nil || isFromNode(c) || r.isHere(streamID(c))
}

// left is err, of a stream that was here: one that has gone to another node just then
// is there for who asks again. Another node is told which.
func (r *Router) left(c echo.Context, err error) error {
	h, ok := errors.AsType[*heldBy](err)
	if !ok || isFromNode(c) {
		return err
	}
	return &plane.OffsetError{Kind: plane.ErrMoved, From: h.seq, Want: h.seq}
}

// route serves a request here, if that is where the ring has its stream, or has send
// send it to a member, or the proxy at the edge. What can't be served here because
// another has the stream is sent there.
func (r *Router) route(c echo.Context, next echo.HandlerFunc, replay bool, send func(member string) (*http.Response, error)) error {
	id := streamID(c)
	member, tried := r.place(id), false
	switch member {
	case "":
		return wire.Detail(wire.ErrUnavailable, "the cluster has no active node now; try again")
	case r.cfg.Cluster.Self():
		tried = true
		err := next(c)
		other, ok := errors.AsType[*heldBy](err)
		if !ok || c.Response().Committed {
			return err
		}
		member = other.member
		r.places.learn(id, member)
	}
	if machine, ok := machineOf(member); ok && replay {
		return flyReplay(c, machine)
	}
	resp, err := send(member)
	if errors.Is(err, errOurs) && !tried { // it drains, and this node has yet to hear of that; or the row was ours only then
		if err = next(c); errors.Is(err, plane.ErrHeld) && !c.Response().Committed {
			return errNoHost
		}
		return err
	}
	if err != nil {
		return err
	}
	return r.passOn(c, resp)
}

// isHere reports whether a stream is live or lingering here.
func (r *Router) isHere(id string) bool {
	_, ok := r.cfg.Actors.Stream(id)
	return ok
}

// forwarded is a request as another node is sent it: what it asks, without who asked.
func forwarded(ctx context.Context, req *http.Request, body io.Reader, length int64) (*http.Request, error) {
	target := url.URL{Scheme: "http", Host: "peer", Path: req.URL.Path, RawPath: encoded(req.URL.RawPath), RawQuery: auth.WithoutToken(req.URL.RawQuery)}
	out, err := http.NewRequestWithContext(ctx, req.Method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("forward request: %w", err)
	}
	out.ContentLength = length
	for _, h := range []string{echo.HeaderContentType, echo.HeaderAccept} {
		if v := req.Header.Values(h); len(v) > 0 {
			out.Header[h] = v
		}
	}
	return out, nil
}

// encoded is a path as its client wrote it, with all percent-encoded that has to be:
// package url would have no part in one that is not, and encode the decoded path, in
// which a slash of a stream's id looks like the path's own.
func encoded(raw string) string {
	parts := strings.Split(raw, "/")
	for i, part := range parts {
		if s, err := url.PathUnescape(part); err == nil {
			parts[i] = url.PathEscape(s)
		}
	}
	return strings.Join(parts, "/")
}

// ask sends a request to a member, and to the one that this says has the stream. It
// answers which of them the response is of.
func (r *Router) ask(ctx context.Context, id, member string, build func(context.Context) (*http.Request, error)) (*http.Response, string, error) {
	for range maxHops {
		req, err := build(ctx)
		if err != nil {
			return nil, "", err
		}
		resp, err := r.send(ctx, id, member, req)
		hint, ok := errors.AsType[*heldBy](err)
		switch {
		case !ok:
			return resp, member, err
		case hint.member == r.cfg.Cluster.Self():
			return nil, "", errOurs
		case hint.member == member:
			return nil, "", errNoHost // its row changes hands just now
		}
		member = hint.member
	}
	return nil, "", errNoHost
}

// send sends one request to one member. A heldBy error is its answer that another
// has the stream.
func (r *Router) send(ctx context.Context, id, member string, req *http.Request) (*http.Response, error) {
	resp, err := r.do(ctx, member, req)
	if err != nil {
		r.places.forget(id)
		if ctx.Err() != nil { // who asked has left, or waits no longer: that need not be the member's doing
			r.cfg.Metrics.forwarded("abandoned")
		} else {
			r.cfg.Metrics.forwarded("unreachable")
			r.unasked(ctx, id, member, err)
		}
		if errors.Is(err, peer.ErrBroken) {
			return nil, errNoAnswer
		}
		return nil, errNoHost
	}
	r.asked(ctx, member)
	if resp.StatusCode != http.StatusMisdirectedRequest {
		r.cfg.Metrics.forwarded("answered")
		return resp, nil
	}
	r.cfg.Metrics.forwarded("misdirected")
	_ = resp.Body.Close()
	other := resp.Header.Get(hostHeader)
	if !r.cfg.Cluster.Has(other) {
		r.places.forget(id)
		return nil, errNoHost
	}
	r.places.learn(id, other)
	return nil, &heldBy{member: other}
}

// do sends a request to a member, and says which ring this node has.
func (r *Router) do(ctx context.Context, member string, req *http.Request) (*http.Response, error) {
	req.Header.Set(ringHeader, r.cfg.Cluster.Digest())
	return r.cfg.Cluster.Do(ctx, member, req)
}

// where asks who has a stream, beginning with a member.
func (r *Router) where(ctx context.Context, id, member string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, whereTime)
	defer cancel()
	resp, member, err := r.ask(ctx, id, member, func(ctx context.Context) (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodGet, peerURL(id, "/where"), nil)
	})
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusNoContent {
		return "", refusal(resp)
	}
	return member, nil
}

// peerURL is the URL, on another node, of a stream's route.
func peerURL(id, route string) string { return "http://peer/v1/streams/" + url.PathEscape(id) + route }

// refusal is the error that an answer of another node is.
func refusal(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return errNoHost
	}
	return wire.Decode(resp.StatusCode, body)
}

// passOn answers with what another node answered, as it comes.
func (r *Router) passOn(c echo.Context, resp *http.Response) error {
	defer func() { _ = resp.Body.Close() }()
	h := c.Response().Header()
	for _, name := range []string{echo.HeaderContentType, echo.HeaderContentLength, echo.HeaderRetryAfter, "Cache-Control", "X-Accel-Buffering",
		"X-Content-Type-Options", "X-Request-Id", retryHeader} {
		if v := resp.Header.Values(name); len(v) > 0 {
			h[name] = v
		}
	}
	control := http.NewResponseController(c.Response())
	_ = control.SetWriteDeadline(time.Time{})
	c.Response().WriteHeader(resp.StatusCode)
	buf := make([]byte, 16<<10)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			_ = control.SetWriteDeadline(time.Now().Add(r.limits.Stall))
			if _, err := c.Response().Write(buf[:n]); err != nil {
				return nil // the client is gone
			}
			if err := control.Flush(); err != nil {
				return nil
			}
			_ = control.SetWriteDeadline(time.Time{})
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil: // half an answer must not look like a whole one
			panic(http.ErrAbortHandler)
		}
	}
}

// nodeKey marks a request of another node.
const nodeKey = "node"

func isFromNode(c echo.Context) bool { return c.Get(nodeKey) != nil }

// misdirected answers another node that asked for a stream which is elsewhere, and
// says where.
func (r *Router) misdirected(c echo.Context, err error) error {
	member := ""
	if h, ok := errors.AsType[*heldBy](err); ok {
		member = h.member
	} else if errors.Is(err, plane.ErrDraining) {
		member = r.cfg.Cluster.Owner(streamID(c))
	}
	if member == "" || member == r.cfg.Cluster.Self() || c.Response().Committed {
		return err
	}
	c.Response().Header().Set(hostHeader, member)
	return c.NoContent(http.StatusMisdirectedRequest)
}
