package peer

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
)

// hello asks for nothing but a signed answer, and takes the peer's time from it.
func (l *link) hello(ctx context.Context, c *connection) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.client.scheme+"://"+l.peer.Addr+"/", nil)
	if err != nil {
		return err
	}
	req.Header[headerHello] = []string{"1"}
	code := l.sign(req, 1)
	resp, err := c.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := l.authentic(resp, code); err != nil {
		return err
	}
	if why := resp.Header.Get(headerRefused); why != "" {
		return refused(refusal(why))
	}
	return l.learn(resp)
}

// learn corrects what is known of the peer's clock by its answer.
func (l *link) learn(resp *http.Response) error {
	clock, err := strconv.ParseInt(resp.Header.Get(headerClock), 10, 64)
	if err != nil {
		return fmt.Errorf("%w: no time in its answer", ErrNotPeer)
	}
	l.stamps.learn(clock)
	return nil
}

// sign puts on a request's header what the peer looks at, and gives its code.
func (l *link) sign(req *http.Request, hop int) (code mac) {
	h := req.Header
	h[headerCaller] = []string{l.client.cfg.Name}
	h[headerTarget] = []string{l.peer.Name}
	h[headerHop] = []string{strconv.Itoa(hop)}
	h[headerStamp] = []string{l.stamps.next().String()}
	if len(l.client.keys) == 0 {
		return code
	}
	withRequest(req.Method, req.URL.RequestURI(), h, func(m message) { code = l.client.keys[0].sum(m) })
	h[headerSignature] = []string{encodeMAC(code)}
	return code
}

// authentic says whether an answer is the peer's, to the very request.
func (l *link) authentic(resp *http.Response, code mac) error {
	if len(l.client.keys) > 0 {
		value, _ := only(resp.Header, headerSignature)
		m, ok := decodeMAC(value)
		if ok {
			withAnswer(code, resp.StatusCode, resp.Header, func(b message) { ok = l.client.keys.find(b, m) != nil })
		}
		switch {
		case !ok && resp.StatusCode == http.StatusUnauthorized:
			return fmt.Errorf("%w: have all members the same cluster name and secret?", ErrDenied)
		case !ok:
			return fmt.Errorf("%w: its answer is not signed by a member", ErrNotPeer)
		}
	}
	if resp.Header.Get(headerRefused) == string(refusedTarget) {
		return refused(refusedTarget)
	}
	if name, _ := only(resp.Header, headerNode); name != l.peer.Name {
		return fmt.Errorf("%w: its answer is another member's", ErrNotPeer)
	}
	return nil
}

// refused makes an error of a member's reason.
func refused(why refusal) error {
	switch why {
	case refusedTarget:
		return fmt.Errorf("%w: it is another member", ErrNotPeer)
	case refusedLoop:
		return ErrLoop
	case refusedBusy:
		return fmt.Errorf("%w: it has no room for another caller", ErrUnreachable)
	}
	return fmt.Errorf("%w: its answer to the stamp was %q", ErrDenied, string(why))
}
