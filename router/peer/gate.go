package peer

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"
)

// gate is the handler before the handler: it lets members through.
type gate struct {
	name    string
	keys    keyring
	next    http.Handler
	clock   func() int64
	seen    seen
	write   time.Duration
	refused func(string)
	logger  *slog.Logger

	mu       sync.Mutex // guards below
	closed   bool
	handlers sync.WaitGroup
}

func newGate(cfg ServerConfig) (*gate, error) {
	keys, err := newKeyring(cfg.Identity)
	if err != nil {
		return nil, err
	}
	g := &gate{
		name: cfg.Name, keys: keys, next: cfg.Handler, clock: cfg.Clock,
		write: cfg.WriteTimeout, refused: cfg.Refused, logger: cfg.Logger,
	}
	if g.clock == nil {
		g.clock = monotonic()
	}
	if g.write <= 0 {
		g.write = defaultWriteTimeout
	}
	if g.refused == nil {
		g.refused = func(string) {}
	}
	if g.logger == nil {
		g.logger = slog.New(slog.DiscardHandler)
	}
	return g, nil
}

// enter counts a request in, unless the server is closed.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.handlers.Add(1)
	return true
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// claim is what a request says of itself; it is true, once verify has said so.
type claim struct {
	target string
	caller Caller
	stamp  stamp
	hello  bool
	key    *key // nil without secrets
	code   mac  // the request's
}

// verify reads a request's claim. A false answer means that no member made the
// request as it is; the body is not touched.
func (g *gate) verify(r *http.Request) (c claim, ok bool) {
	var hop, st string
	fields := []struct {
		name string
		to   *string
	}{{headerTarget, &c.target}, {headerCaller, &c.caller.Name}, {headerHop, &hop}, {headerStamp, &st}}
	for _, f := range fields {
		if *f.to, ok = only(r.Header, f.name); !ok {
			return claim{}, false
		}
	}
	if c.stamp, ok = parseStamp(st); !ok || checkName(c.caller.Name) != nil {
		return claim{}, false
	}
	var err error
	if c.caller.Hop, err = strconv.Atoi(hop); err != nil || c.caller.Hop < 1 {
		return claim{}, false
	}
	_, c.hello = r.Header[headerHello]
	if len(g.keys) == 0 {
		return c, true // the connection is authenticated
	}
	signature, ok := only(r.Header, headerSignature)
	if !ok {
		return claim{}, false
	}
	if c.code, ok = decodeMAC(signature); !ok {
		return claim{}, false
	}
	withRequest(r.Method, r.RequestURI, r.Header, func(m message) { c.key = g.keys.find(m, c.code) })
	return c, c.key != nil
}

// judge says whether a member's request is to be refused.
func (g *gate) judge(c claim) refusal {
	switch {
	case c.target != g.name:
		return refusedTarget
	case c.hello:
		return "" // says nothing, does nothing: as often as one likes, at any time
	case c.caller.Hop > MaxHops:
		return refusedLoop
	case c.key == nil:
		return "" // TLS lets nothing be replayed
	}
	return g.seen.use(c.stamp, g.clock())
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.enter() {
		panic(http.ErrAbortHandler)
	}
	defer g.handlers.Done()
	guest := guestFrom(r.Context())
	c, ok := g.verify(r)
	if !ok {
		g.refused("stranger")
		if guest != nil && !guest.proven() {
			w.Header().Set("Connection", "close")
		}
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	a := &answer{ResponseWriter: w, key: c.key, request: c.code, node: g.name, patience: g.write}
	defer a.finish()
	if why := g.judge(c); why != "" {
		g.refused(string(why))
		a.refuse(why, g.clock())
		return
	}
	if c.hello {
		a.clock = g.clock()
		a.WriteHeader(http.StatusNoContent)
		return
	}
	if guest != nil { // a greeting may be a repeat of what a stranger has heard; this is none
		guest.prove()
	}
	remove(r.Header, reserved...)
	g.serve(a, r.WithContext(context.WithValue(r.Context(), callerKey{}, c.caller)))
}

// serve runs the handler. What panics on purpose, as a proxy does when one side
// leaves in mid-copy, resets the stream and nothing more; another panic is
// logged, too.
func (g *gate) serve(a *answer, r *http.Request) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p == http.ErrAbortHandler {
			panic(p)
		}
		g.logger.Error("handler of a peer's request panicked", "panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
		if a.started() {
			panic(http.ErrAbortHandler)
		}
		a.WriteHeader(http.StatusInternalServerError)
	}()
	g.next.ServeHTTP(a, r)
	a.start()
}
