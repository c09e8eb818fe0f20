package peer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
)

// silentPeer is how long a connection must have been silent for an exchange that
// took too long to be held against the peer. A live connection never is, pings
// see to that: then it is the handler that is slow, and other requests go on.
const silentPeer = pingAfter + pingAfter/2

// exchange is one request and its answer.
type exchange struct {
	link   *link
	req    *http.Request // as the caller gave it
	header http.Header   // what of it travels
	url    *url.URL
	hop    int
	body   *outgoing
}

func (c *Client) prepare(ctx context.Context, to Peer, req *http.Request) (*exchange, error) {
	from, _ := From(ctx)
	x := &exchange{req: req, hop: from.Hop + 1, header: travelling(req.Header)}
	if x.hop > MaxHops {
		return nil, fmt.Errorf("send to %s: %w", to.Name, ErrLoop)
	}
	if err := checkName(to.Name); err != nil {
		return nil, fmt.Errorf("send to a peer: its name: %w", err)
	}
	if req.URL == nil || req.URL.Opaque != "" || req.Method == http.MethodConnect {
		return nil, fmt.Errorf("send to %s: not a request that can be passed on", to.Name)
	}
	u := *req.URL
	u.Scheme, u.Host, u.User, u.Fragment = c.scheme, to.Addr, nil, ""
	x.url = &u
	var err error
	if x.link, err = c.link(to); err != nil {
		return nil, fmt.Errorf("send to %s: %w", to.Name, err)
	}
	x.body = newOutgoing(req.Body)
	return x, nil
}

// again is an error after which the request may be sent once more, if nothing
// of its body is gone: the peer has not looked at it.
type again struct{ error }

func (e again) Unwrap() error { return e.error }

func (x *exchange) run(ctx context.Context) (*http.Response, error) {
	leave, err := x.link.memory.admit()
	if err != nil {
		return nil, fmt.Errorf("send to %s: it failed lately: %w", x.link.peer.Name, err)
	}
	defer leave.giveBack()
	resp, err := x.attempt(ctx)
	var retry again
	if errors.As(err, &retry) {
		if next, ok := x.body.renew(x.req.GetBody); ok {
			x.body = next
			resp, err = x.attempt(ctx)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("send to %s: %w", x.link.peer.Name, err)
	}
	return resp, nil
}

// attempt sends the request once.
func (x *exchange) attempt(parent context.Context) (_ *http.Response, err error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer func() {
		if err != nil {
			cancel(err)
		}
	}()
	conn, err := x.link.connect(ctx)
	if err != nil {
		return nil, err
	}
	var sent atomic.Bool
	req := x.request(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Store(true) },
	}))
	code := x.link.sign(req, x.hop)
	resp, err := conn.RoundTrip(req)
	if err != nil {
		return nil, x.broken(ctx, conn, sent.Load(), err)
	}
	if err := x.judge(resp, code); err != nil {
		resp.Body.Close()
		return nil, err
	}
	x.link.memory.succeeded()
	remove(resp.Header, reserved...)
	resp.Request = x.req
	idle := x.link.client.cfg.IdleTimeout
	if ctx.Value(quietKey{}) != nil {
		idle = 0
	}
	resp.Body = newIncoming(ctx, resp.Body, idle, cancel)
	return resp, nil
}

// request is what goes out: the caller's, with its own header to be signed.
func (x *exchange) request(ctx context.Context) *http.Request {
	req := x.req.WithContext(ctx)
	req.URL, req.Host = x.url, ""
	req.Header = make(http.Header, len(x.header)+len(reserved))
	for name, values := range x.header {
		req.Header[name] = values
	}
	if req.Method == "" {
		req.Method = http.MethodGet
	}
	req.Trailer = nil // would not be signed
	req.GetBody = nil // repeating is decided here
	if x.body != nil {
		req.Body = x.body
	}
	return req
}

// judge says whether an answer is one to give to the caller.
func (x *exchange) judge(resp *http.Response, code mac) error {
	if err := x.link.authentic(resp, code); err != nil {
		return err
	}
	switch why := refusal(resp.Header.Get(headerRefused)); why {
	case "":
		return nil
	case refusedClock:
		if err := x.link.learn(resp); err != nil {
			return err
		}
		// The next stamp is right, whoever's it is.
		return again{fmt.Errorf("%w: its clock was another", ErrUnreachable)}
	case refusedReplay:
		return again{refused(why)}
	default:
		return refused(why)
	}
}

// broken says what became of a request that got no answer.
func (x *exchange) broken(ctx context.Context, conn *connection, sent bool, err error) error {
	if ctx.Err() != nil {
		cause := context.Cause(ctx)
		err := fmt.Errorf("%w: no answer: %w", ErrBroken, cause)
		if errors.Is(cause, context.DeadlineExceeded) && conn.wire.silence() >= silentPeer {
			x.link.memory.failed(fmt.Errorf("%w: it did not answer", ErrUnreachable))
		}
		return err
	}
	if sent && !untaken(err) {
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	if !sent && conn.Err() == nil && conn.Available() > 0 {
		return fmt.Errorf("not fit to be sent: %w", err)
	}
	return again{fmt.Errorf("%w: %w", ErrUnreachable, err)}
}

// streamError has the fields of the standard library's error of that name, which
// takes any such type for a target.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamError) Error() string { return "stream error" }

const (
	refusedStream = 0x7 // REFUSED_STREAM, RFC 9113 section 7
	goodbye       = "http2: Transport received Server's graceful shutdown GOAWAY"
)

// untaken says whether an error tells for sure that the peer has not begun with
// the request. (Where the library's words change, the answer is the cautious no.)
func untaken(err error) bool {
	var se streamError
	if errors.As(err, &se) {
		return se.Code == refusedStream
	}
	return err.Error() == goodbye
}
