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

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/auth"
	"rillkeep.dev/rillkeep/router/generate"
	"rillkeep.dev/rillkeep/router/peer"
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

	// Generate says what models can be called.
	Generate generate.Config

	Limits Limits
	Logger *slog.Logger // nil discards
}

// Router is the handler of a node's public listener.
type Router struct {
	cfg    Config
	limits Limits
	rows   rows
	log    *slog.Logger
	echo   *echo.Echo

	generator   *generate.Client
	generations generations

	serving group           // requests, readers, samples, generations
	crews   crews           // of readers at the tip
	watches watches         // of readers that follow durable text
	places  places          // where streams are, by their rows
	outages outages         // of other nodes, as the log knows them
	relayed repeats         // failures of the relay that the log was not told of
	looks   looks           // at rows, of readers that come back
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
	if err := cfg.Limits.Validate(cfg.Verifier != nil); err != nil {
		return nil, err
	}
	r := &Router{cfg: cfg, limits: cfg.Limits.withDefaults(), log: cfg.Logger, echo: echo.New()}
	r.rows = rows{cfg.Store, r.limits.StoreTime}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	var err error
	cfg.Generate.Logger = cmp.Or(cfg.Generate.Logger, r.log)
	if r.generator, err = generate.New(cfg.Generate); err != nil {
		return nil, err
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
	stream(http.MethodPost, "", r.resumable(r.owned(r.open)), auth.Write)
	stream(http.MethodPost, "/append", r.owned(r.append), auth.Write)
	e.POST("/v1/streams/:id/pump", r.ownedPump(r.pump), duplex, r.named, r.allow(auth.Write))
	stream(http.MethodPost, "/flush", r.owned(r.flush), auth.Write)
	stream(http.MethodPost, "/keepalive", r.owned(r.keepAlive), auth.Write)
	stream(http.MethodPost, "/close", r.owned(r.close), auth.Write)
	stream(http.MethodPost, "/fail", r.owned(r.fail), auth.Write)
	stream(http.MethodPost, "/cancel", r.cancel, auth.Cancel)
	stream(http.MethodPost, "/generate", r.ownedUpTo(r.limits.GenerateBytes, r.generate), auth.Write)
	e.POST("/v1/chat/completions", r.completions, r.chosen, r.allow(auth.Write))
	e.POST("/demo/streams/:id", r.owned(r.demo), r.named, r.allow(auth.Write))

	page := echo.WrapHandler(web.Handler())
	e.GET("/", page)
	e.HEAD("/", page)
	e.GET("/web/*", page)
	e.HEAD("/web/*", page)
}

// ServeHTTP implements http.Handler. What nodes tell each other by is no client's to say.
func (r *Router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	peer.Strip(req.Header)
	r.echo.ServeHTTP(w, req)
}

// Wait returns when nothing runs: no request, no reader's connection (which may
// not be the HTTP server's to end any more), no sample, no model call; or ctx is done.
func (r *Router) Wait(ctx context.Context) error { return r.serving.wait(ctx) }

// Close refuses requests from now on, ends the readers, and waits. What else
// runs ends with its stream or its request.
func (r *Router) Close(ctx context.Context) error {
	r.serving.shut()
	r.end()
	err := r.Wait(ctx)
	r.generator.Close()
	return err
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
