// Package router is a node's HTTP server: it authorizes each request before
// anything is looked up, serves what the node hosts, and turns errors into the
// API's codes. It is the only place where echo appears.
package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/auth"
	"rillkeep.dev/rillkeep/router/web"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/feed"
)

// Config says what a Router serves.
type Config struct {
	Actors  *actor.System // required; its Authorize is Authorize
	Store   store.Store   // required
	Metrics *Metrics      // required

	// Publish is told of each change that is made here, for the other nodes of
	// the store; it waits for nothing. nil is for a store that has one node.
	Publish func(feed.Change)

	// Verifier checks tokens; nil lets everybody do everything, which is for a
	// node that only its own machine can reach.
	Verifier *auth.Verifier

	// Cluster are the other nodes; nil for a node that is alone.
	Cluster Cluster

	// FlyReplay answers requests that belong to another node with a header that has
	// the proxy at the edge send them there, in place of sending them on. Pumps,
	// which such a proxy can't repeat, are sent on all the same.
	FlyReplay bool

	Limits Limits
	Logger *slog.Logger // nil discards
}

// Limits bound what clients may cost (B). The zero value of each means its
// default.
type Limits struct {
	AppendBytes   int64         // body of an append: 1 MiB
	HeaderTime    time.Duration // to send a request's header: 10 s
	BodyTime      time.Duration // to send a body, other than a pump's: 30 s
	AnswerTime    time.Duration // to take an answer that ends, from the request on: 3 min
	StoreTime     time.Duration // one store call that a request waits for: 10 s
	PumpLineBytes int           // line of a pump's body: 1 MiB
	Readers       int           // readers at once: 50,000
	Snapshots     int           // snapshots being answered at once, each a whole text: 16
	Ping          time.Duration // comment line to a reader: every 15 s
	Recheck       time.Duration // authorization of a reader: every 15 s; with keys, 1 s to 1 min
	Stall         time.Duration // a reader that takes nothing is closed: after 30 s
	DurablePoll   time.Duration // look for new durable text while changes elsewhere are not heard: every 250 ms
	FeedPoll      time.Duration // and while they are, beside the looks at what was heard of: every 2 s
	PageUnits     int64         // durable text read at once: 256 Ki units
}

func (l Limits) withDefaults() Limits {
	l.AppendBytes = cmp.Or(l.AppendBytes, 1<<20)
	l.BodyTime = cmp.Or(l.BodyTime, 30*time.Second)
	l.AnswerTime = cmp.Or(l.AnswerTime, 3*time.Minute)
	l.StoreTime = cmp.Or(l.StoreTime, 10*time.Second)
	l.PumpLineBytes = cmp.Or(l.PumpLineBytes, 1<<20)
	l.Readers = cmp.Or(l.Readers, 50_000)
	l.Snapshots = cmp.Or(l.Snapshots, 16)
	l.Ping = cmp.Or(l.Ping, 15*time.Second)
	l.Recheck = cmp.Or(l.Recheck, 15*time.Second)
	l.Stall = cmp.Or(l.Stall, 30*time.Second)
	l.DurablePoll = cmp.Or(l.DurablePoll, 250*time.Millisecond)
	l.FeedPoll = cmp.Or(l.FeedPoll, 2*time.Second)
	l.PageUnits = cmp.Or(l.PageUnits, 256<<10)
	return l
}

// How often a reader's authorization may be asked for again.
const (
	minRecheck = time.Second
	maxRecheck = time.Minute
)

// Router is the handler of a node's public listener.
type Router struct {
	cfg    Config
	limits Limits
	rows   rows
	log    *slog.Logger
	echo   *echo.Echo

	serving group           // requests, readers, samples
	crews   crews           // of readers at the tip
	watches watches         // of readers that follow durable text
	places  places          // where streams are, by their rows
	deaf    atomic.Bool     // changes made elsewhere are not heard
	stop    context.Context // done when readers are to end
	end     context.CancelFunc
	demos   atomic.Int32 // samples that play
	whole   atomic.Int32 // snapshots being answered
}

// New returns a router for cfg.
func New(cfg Config) (*Router, error) {
	if cfg.Actors == nil || cfg.Store == nil || cfg.Metrics == nil {
		return nil, fmt.Errorf("%w: a router needs Actors, Store and Metrics", plane.ErrConfig)
	}
	r := &Router{cfg: cfg, limits: cfg.Limits.withDefaults(), log: cfg.Logger, echo: echo.New()}
	if every := r.limits.Recheck; cfg.Verifier != nil && (every < minRecheck || every > maxRecheck) {
		return nil, fmt.Errorf("%w: Recheck is %v, not from %v to %v", plane.ErrConfig, every, minRecheck, maxRecheck)
	}
	r.rows = rows{cfg.Store, r.limits.StoreTime}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.stop, r.end = context.WithCancel(context.Background())
	r.crews.serving, r.crews.metrics = &r.serving, cfg.Metrics
	r.routes()
	return r, nil
}

func (r *Router) routes() {
	e := r.echo
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = r.writeError
	e.Use(r.counted, r.observe, r.timely, r.sameSite)

	e.GET("/healthz", r.health)
	e.GET("/readyz", r.ready)
	e.GET("/metrics", echo.WrapHandler(promhttp.HandlerFor(r.cfg.Metrics.registry, promhttp.HandlerOpts{})), r.allow(auth.Admin))

	e.GET("/v1/streams", r.list, r.allow(auth.Admin))
	e.GET("/v1/cluster", r.cluster, r.allow(auth.Admin))
	// No echo.Group: one with middleware answers wrong methods by itself.
	stream := func(method, action string, serve echo.HandlerFunc, op auth.Op) {
		e.Add(method, "/v1/streams/:id"+action, serve, r.named, r.allow(op))
	}
	stream(http.MethodGet, "", r.read, auth.Read)
	stream(http.MethodPost, "", r.owned(r.open), auth.Write)
	stream(http.MethodPost, "/append", r.owned(r.append), auth.Write)
	e.POST("/v1/streams/:id/pump", r.ownedPump(r.pump), duplex, r.named, r.allow(auth.Write))
	stream(http.MethodPost, "/flush", r.owned(r.flush), auth.Write)
	stream(http.MethodPost, "/close", r.owned(r.close), auth.Write)
	stream(http.MethodPost, "/fail", r.owned(r.fail), auth.Write)
	stream(http.MethodPost, "/cancel", r.cancel, auth.Cancel)
	e.POST("/demo/streams/:id", r.owned(r.demo), r.named, r.allow(auth.Write))

	page := echo.WrapHandler(web.Handler())
	e.GET("/", page)
	e.HEAD("/", page)
	e.GET("/web/*", page)
	e.HEAD("/web/*", page)
}

// ServeHTTP implements http.Handler.
func (r *Router) ServeHTTP(w http.ResponseWriter, req *http.Request) { r.echo.ServeHTTP(w, req) }

// Wait returns when nothing runs: no request, no reader's connection (which may
// not be the HTTP server's to end any more), no sample; or ctx is done.
func (r *Router) Wait(ctx context.Context) error { return r.serving.wait(ctx) }

// Close refuses requests from now on, ends the readers, and waits. What else
// runs ends with its stream or its request.
func (r *Router) Close(ctx context.Context) error {
	r.serving.shut()
	r.end()
	return r.Wait(ctx)
}

// Authorize is what an actor.System asks before a reader joins: the principal
// is the grant that its request came with.
func Authorize(_ context.Context, access actor.Access) (bool, error) {
	grant, ok := access.Principal.(auth.Grant)
	if !ok {
		return false, errors.New("reader has no grant")
	}
	return grant.Allows(auth.Read, access.StreamID), nil
}
