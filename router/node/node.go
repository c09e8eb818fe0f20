// Package node is the composition root: it opens a whole Rillkeep node, store,
// actors and HTTP server, so that a program, a test or a simulation can run one
// or many in its process.
package node

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/auth"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/lease"
)

// What bounds a client's connection, beside router.Limits, and a node's end.
const (
	headerTimeout = 10 * time.Second // to send a request's header, unless Limits say otherwise
	idleTimeout   = 2 * time.Minute  // between requests on one connection
	headerBytes   = 32 << 10
	endGrace      = 3 * time.Second // for readers to take the end of their streams
	storeGrace    = 5 * time.Second // for the store's last calls to end, at most
	leaveTime     = 4 * time.Second // to leave the cluster, after the last reader
)

// Node is a running node.
type Node struct {
	log     *slog.Logger
	metrics *router.Metrics
	store   store.Store
	lease   *lease.Keeper // nil where the store is this node's alone
	actors  *actor.System
	router  *router.Router
	member  *member     // nil if there is no cluster
	news    *news       // nil if the store carries none
	public  lateHandler // router, once it may be asked
	server  *http.Server
	addr    net.Addr

	serving  errgroup.Group
	gap      chan struct{} // holds one: the lease had a gap
	fenced   chan string   // streams that were another's by their rows
	turned   chan struct{} // holds one: the lease was lost, or is held again
	failed   chan struct{} // closed when the node can't go on
	fails    sync.Once     // closes it
	gaps     atomic.Int64  // of the lease
	verified atomic.Int64  // those after which was looked which streams are still this node's

	base context.Context    // of all requests
	stop context.CancelFunc // ends all requests
}

// Open starts a node: when it returns, the node serves. What can't be right it
// refuses at once, with plane.ErrConfig, such as to listen beyond loopback without
// keys. While the database can't be reached it goes on
// trying until ctx ends, logs why, and answers requests that it is not ready.
func Open(ctx context.Context, cfg Config) (_ *Node, err error) {
	if cfg.Listener == nil {
		cfg.Listen = cmp.Or(cfg.Listen, DefaultListen)
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	listener := cfg.Listener
	if listener == nil {
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen); err != nil {
			return nil, fmt.Errorf("listen (--listen): %w", err)
		}
	}
	n := &Node{
		log: cfg.Logger, metrics: router.NewMetrics(), addr: listener.Addr(), failed: make(chan struct{}),
		gap: make(chan struct{}, 1), turned: make(chan struct{}, 1), fenced: make(chan string, maxFenced),
	}
	n.base, n.stop = context.WithCancel(context.Background())
	n.serve(n.gather(listener, cfg.MaxConnections), cmp.Or(cfg.Limits.HeaderTime, headerTimeout))
	defer func() {
		if err != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeGrace)
			defer cancel()
			_ = n.close(ctx, n.release) // err says what there is to say
		}
	}()
	n.store, err = n.reachStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	name, incarnation := cfg.name(listener.Addr()), strings.ToLower(rand.Text()[:12])
	if err := n.takeName(ctx, name); err != nil {
		return nil, err
	}
	if err := n.supersede(ctx, name, incarnation); err != nil {
		return nil, err
	}
	if err := n.checkCompany(ctx, cfg, name); err != nil {
		return nil, err
	}
	if err := n.joinCluster(ctx, cfg, name, incarnation); err != nil {
		return nil, err
	}
	rows, err := n.takeLease(ctx, cfg, name, incarnation)
	if err != nil {
		return nil, err
	}
	if err := n.compose(cfg, rows, name+"/"+incarnation); err != nil {
		return nil, err
	}
	if n.lease != nil {
		n.serving.Go(func() error { n.verify(); return nil })
	}
	if n.news != nil {
		n.news.run()
	}
	n.public.set(n.router)
	if err := n.serveCluster(ctx); err != nil {
		return nil, err
	}
	if n.lease != nil && n.member != nil {
		n.serving.Go(func() error { n.followLease(); return nil })
		n.serving.Go(func() error { n.tellOwners(); return nil })
	}
	return n, nil
}

// compose puts the node's parts together. rows is the store as they see it, token
// the owner token of its streams without their epochs.
func (n *Node) compose(cfg Config, rows store.Store, token string) (err error) {
	text := plane.NewBudget(cmp.Or(cfg.MaxText, DefaultMaxText))
	if n.lease != nil {
		n.metrics.ObserveLease(n.lease.Stats)
	}
	n.actors, err = actor.New(actor.Config{
		Plane: plane.Config{
			Store:  rows,
			Texts:  store.Texts(rows),
			Budget: text,
			Policy: cfg.Policy,
			Logger: n.log,
			Hooks:  n.announcing(n.hooks(n.metrics)),
		},
		Node:      token,
		Authorize: router.Authorize,
		Linger:    cfg.Linger,
		Relay:     n.relay(),

		ProducerTimeout: cfg.ProducerTimeout,
	})
	if err != nil {
		return err
	}
	n.metrics.Observe(n.actors, text)
	if err := n.openNews(token); err != nil {
		return err
	}
	n.news.observe(n.metrics)
	var verifier *auth.Verifier
	if cfg.Keys != nil {
		verifier = auth.NewVerifier(auth.Config{Keys: cfg.Keys, Audience: cfg.Audience})
	}
	n.router, err = router.New(router.Config{
		Actors: n.actors, Store: rows, Metrics: n.metrics, Verifier: verifier, Publish: n.news.publish(),
		Cluster: n.cluster(), FlyReplay: cfg.Cluster != nil && cfg.Cluster.FlyReplay,
		Generate: cfg.Generate, Limits: cfg.Limits, Logger: n.log,
	})
	if err != nil {
		return err
	}
	n.router.Listening(false) // a store may have other nodes, which are not heard yet, or never
	return nil
}

// hooks turn what happens to streams into metrics and log lines.
func (n *Node) hooks(m *router.Metrics) plane.Hooks {
	return plane.Hooks{
		Checkpoint: func(c plane.Checkpoint) {
			m.Checkpoint(c)
			level := slog.LevelWarn
			for _, e := range []error{plane.ErrBroken, plane.ErrWentBack, plane.ErrTextLost} { // somebody has to do something
				if errors.Is(c.Err, e) {
					level = slog.LevelError
				}
			}
			if c.Err != nil {
				n.log.Log(n.base, level, "checkpoint failed", "streamId", c.StreamID, "from", c.From, "seq", c.Seq, "error", c.Err)
			}
		},
		Replaced: m.Replaced,
		Moved: func(s *plane.Stream, m plane.Moved) {
			n.log.Info("stream given up to be adopted", "streamId", s.ID(), "epoch", s.Epoch(), "seq", m.Row.Seq)
		},
		Ended: func(s *plane.Stream, end plane.Ending) {
			m.Ended(end.Status)
			n.log.Info("stream ended", "streamId", s.ID(), "epoch", s.Epoch(), "status", end.Status, "seq", end.Seq)
			if errors.Is(end.Err, plane.ErrFenced) {
				select {
				case n.fenced <- s.ID():
				default: // who reads the stream, or produces it, asks as well
				}
			}
		},
	}
}

func (n *Node) serve(listener net.Listener, headerTime time.Duration) {
	n.server = &http.Server{
		Handler:           http.HandlerFunc(n.receive),
		ConnContext:       withVisit,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		BaseContext:       func(net.Listener) context.Context { return n.base },
		ErrorLog:          slog.NewLogLogger(n.log.Handler(), slog.LevelDebug),
		Protocols:         protocols(),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: streamsPerConnection, SendPingTimeout: goneTime / 2, PingTimeout: goneTime / 2,
		},
	}
	n.serving.Go(func() error {
		if err := n.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			n.fail()
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
}

// goneTime is how long a client's machine may answer nothing until it is taken for
// gone, and with it the producer whose pump holds its stream.
const goneTime = 30 * time.Second

// streamsPerConnection bounds the requests of one HTTP/2 connection: a proxy may send
// all of its readers and pumps by one.
const streamsPerConnection = 1000

// protocols are what clients speak: HTTP/1.1, and HTTP/2 by prior knowledge, which
// has no limit of a few connections a site, and pumps that hear while they speak.
func protocols() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return &p
}

func (n *Node) fail() { n.fails.Do(func() { close(n.failed) }) }

// lateHandler answers what comes before the node has its store, too.
type lateHandler struct{ to atomic.Pointer[http.Handler] }

func (l *lateHandler) set(h http.Handler) { l.to.Store(&h) }

// ServeHTTP implements http.Handler.
func (l *lateHandler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if h := l.to.Load(); h != nil {
		(*h).ServeHTTP(w, req)
		return
	}
	router.Starting(w, req)
}

// Addr returns the address that the node listens on.
func (n *Node) Addr() net.Addr { return n.addr }

// URL returns the base URL of the node.
func (n *Node) URL() string { return "http://" + n.addr.String() }

// Failed returns a channel that is closed when the node can't go on: its server, or the
// one for other nodes, has ended by itself, as Close then says, or another process has
// its name.
func (n *Node) Failed() <-chan struct{} { return n.failed }

// Drain stops the node without losing what was produced: it opens no more
// streams and says so to who asks whether it is ready, hands every live stream
// over to another node of its cluster but those of its own model calls, which it lets
// end as long as there is time, seals what nobody takes interrupted, lets
// readers take the end of theirs, or follow those that go on elsewhere until
// it is time to go there themselves, and returns when nothing runs any longer or
// ctx is done. It reports what did not reach the store.
func (n *Node) Drain(ctx context.Context) error {
	work, cancel := saving(ctx)
	defer cancel()
	n.handOver(work)
	n.finishGenerations(work)
	err := n.actors.Drain(work) // connections are still accepted: a refusal is an answer, too
	down := make(chan error, 1)
	go func() { down <- n.server.Shutdown(work) }()

	grace, cancel := n.readersTime(work)
	defer cancel()
	_ = n.router.Wait(grace) // those that have not ended by then are followers of other nodes' streams
	n.leave(work)
	n.stop()
	closed := n.close(ctx, n.release) // ends what Shutdown still waits for, such as half a request
	<-down
	return errors.Join(err, closed)
}

// Close stops the node at once: requests end, and streams stay as the store has
// them, as does the node's lease, which runs out. Closing after a Drain, or twice,
// does nothing but wait for what they left under way.
func (n *Node) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), DefaultDrain)
	defer cancel()
	return n.close(ctx, n.abandonLease)
}

func (n *Node) close(ctx context.Context, endLease func(context.Context)) error {
	work, cancel := saving(ctx)
	defer cancel()
	n.stop()
	errs := []error{n.server.Close()}
	if n.router != nil { // nil, as what follows may be, if Open did not get so far
		errs = append(errs, n.actors.Close(work), n.router.Close(work))
	}
	errs = append(errs, n.member.close())
	n.news.close() // with what the last streams had to tell
	errs = append(errs, n.serving.Wait())
	endLease(ctx) // nothing is written any more
	if n.store != nil {
		errs = append(errs, n.store.Close(ctx))
	}
	return errors.Join(errs...)
}

// readersTime is what readers have, at a drain, until their connections end.
func (n *Node) readersTime(ctx context.Context) (context.Context, context.CancelFunc) {
	if n.member == nil || n.member.isAlone() {
		return context.WithTimeout(ctx, endGrace)
	}
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end.Add(-min(leaveTime, time.Until(end)/2)))
}

// saving returns a context for what comes before the end of the last store calls:
// it ends a fifth of ctx's time earlier, storeGrace at most.
func saving(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end.Add(-min(storeGrace, time.Until(end)/5)))
}
