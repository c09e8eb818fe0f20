package router

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"rillkeep.dev/rillkeep/router/upstream"
)

// errSlowClient ends a response whose client takes less than the provider sends.
var errSlowClient = errors.New("client is too slow")

// reply is a provider's response on its way to the one client that asked for it. It
// implements generate.Copy: what the client has not taken waits, within a bound, and a
// client that is too slow costs itself (I).
type reply struct {
	limit int
	news  chan struct{} // holds one when there is something new

	mu     sync.Mutex // guards below
	header http.Header
	waits  []byte
	err    error // why there is no more; io.EOF if it is whole
	gone   bool  // the client
}

func newReply(limit int) *reply {
	return &reply{limit: limit, news: make(chan struct{}, 1)}
}

// Head implements generate.Copy.
func (r *reply) Head(h http.Header) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.header = h.Clone()
}

// Add implements generate.Copy.
func (r *reply) Add(p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.gone || r.err != nil:
		return
	case len(r.waits)+len(p) > r.limit:
		r.err = errSlowClient // after what waits already
	default:
		r.waits = append(r.waits, p...)
	}
	r.tell()
}

// end says that there is no more, and why if it is not whole.
func (r *reply) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil || isSaid(err) && r.header != nil { // an error that was passed on
		err = io.EOF
	}
	if r.err == nil {
		r.err = err
	}
	r.tell()
}

// tell wakes the client's side. r.mu is held.
func (r *reply) tell() {
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// next waits for what comes next. An error comes with the last of it.
func (r *reply) next(ctx context.Context) ([]byte, error) {
	select {
	case <-r.news:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.waits
	r.waits = nil
	return p, r.err
}

// head gives an answer the header that the provider's has.
func (r *reply) head(h http.Header) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range []string{"Content-Type", "X-Request-Id"} {
		if v := r.header.Values(name); len(v) > 0 {
			h[name] = v
		}
	}
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Content-Type-Options", "nosniff")
}

// leave says that the client takes no more.
func (r *reply) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone, r.waits = true, nil
}

// isSaid reports whether a provider's response said itself that it failed.
func isSaid(err error) bool {
	_, ok := errors.AsType[*upstream.Error](err)
	return ok
}
