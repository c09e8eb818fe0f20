package dev

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"rillkeep.dev/rillkeep/router/web"
	"rillkeep.dev/rillkeep/router/wire"
)

// NodeHeader names, in the answers that come through a front, the node that gave
// them.
const NodeHeader = "Rillkeep-Dev-Node"

// lastWord is how long a client may go on sending after its answer. Closed at
// once, its connection would be reset, and the end of the answer be lost.
const lastWord = time.Second

// stall is how long a client may take nothing. A node has given it up before.
const stall = 45 * time.Second

// front leads requests to nodes, in turn. It is transparent: bytes pass at once and
// in both directions at the same time, and a node's death is a broken connection.
type front struct {
	nodes     []*process
	next      atomic.Uint32
	transport http.RoundTripper
	proxy     httputil.ReverseProxy
	page      http.Handler
}

func newFront(nodes []*process) *front {
	f := &front{nodes: nodes, page: web.Handler()}
	f.transport = &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
		DisableKeepAlives:     true, // a connection may have died with its node
		DisableCompression:    true,
		ExpectContinueTimeout: time.Second,
		ResponseHeaderTimeout: 3 * time.Minute,
	}
	f.proxy = httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.Host = r.In.Host
			r.Out.URL.RawQuery = r.In.URL.RawQuery
		},
		Transport:      f,
		FlushInterval:  -1,
		ModifyResponse: closeEarly,
		ErrorHandler:   f.fail,
		ErrorLog:       log.New(io.Discard, "", 0), // who was cut off notices
	}
	return f
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }() // the next answer is not late for it
	if r.ContentLength != 0 {
		_ = control.EnableFullDuplex() // fails where the protocol is that anyway
		body := &body{ReadCloser: r.Body}
		r = r.WithContext(context.WithValue(r.Context(), bodyKey{}, body))
		r.Body = body
		defer func() {
			if !body.over.Load() { // a read of it may wait for more, and the server for that read
				_ = control.SetReadDeadline(time.Now().Add(lastWord))
			}
		}()
	}
	f.proxy.ServeHTTP(&timely{w, control}, r)
}

// errNobody says that there is no node to be led to.
var errNobody = errors.New("no node is up")

// RoundTrip asks one node after the other until one answers; but none after one
// that may have begun to do what it was asked.
func (f *front) RoundTrip(r *http.Request) (*http.Response, error) {
	first := int(f.next.Add(1))
	for i := range f.nodes {
		p := f.nodes[(first+i)%len(f.nodes)]
		at, reach, ok := p.place()
		if !ok {
			continue
		}
		resp, err := f.ask(r, at, reach)
		if err == nil {
			resp.Header.Set(NodeHeader, p.name)
			return resp, nil
		}
		if r.Context().Err() != nil || !repeatable(r, err) {
			return nil, err
		}
	}
	return nil, errNobody
}

// ask passes a request on to a node, for as long as that can be reached.
func (f *front) ask(r *http.Request, at *url.URL, reach context.Context) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(reach, cancel)
	leave := func() { stop(); cancel() }
	r = r.Clone(ctx)
	r.URL.Scheme, r.URL.Host = at.Scheme, at.Host
	if r.Body != nil {
		r.Body = io.NopCloser(r.Body) // for the next to read it
	}
	resp, err := f.transport.RoundTrip(r)
	if err != nil {
		leave()
		return nil, err
	}
	resp.Body = &answer{resp.Body, leave}
	return resp, nil
}

// repeatable reports whether another node may be asked what one has not answered.
func repeatable(r *http.Request, err error) bool {
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Op == "dial" {
		return true
	}
	return r.Body == nil && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

// fail ends a request that no node has answered.
func (f *front) fail(w http.ResponseWriter, r *http.Request, err error) {
	if !errors.Is(err, errNobody) {
		panic(http.ErrAbortHandler) // as if the client had been at the node itself
	}
	if r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, "/web/") {
		f.page.ServeHTTP(w, r) // from which nodes can be started
		return
	}
	refuse(w, wire.Detail(wire.ErrUnavailable, "no node is up"))
}

// closeEarly has a connection end with an answer that comes before its request has
// been sent to the end: what is left of that is no next request.
func closeEarly(resp *http.Response) error {
	if b, ok := resp.Request.Context().Value(bodyKey{}).(*body); ok && !b.over.Load() {
		resp.Header.Set("Connection", "close")
	}
	return nil
}

// bodyKey finds the body in its request's context.
type bodyKey struct{}

// body is a request's, and knows whether all of it was read.
type body struct {
	io.ReadCloser
	over atomic.Bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.over.Store(true)
	}
	return n, err
}

// timely gives each write its time.
type timely struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (t *timely) Write(p []byte) (int, error) {
	_ = t.control.SetWriteDeadline(time.Now().Add(stall)) // a write on a broken connection says so itself
	return t.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (t *timely) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// answer is a node's, which leaves the node when it is closed.
type answer struct {
	io.ReadCloser
	leave func()
}

func (a *answer) Close() error {
	defer a.leave()
	return a.ReadCloser.Close()
}
