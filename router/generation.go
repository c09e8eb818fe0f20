package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/generate"
	"rillkeep.dev/rillkeep/router/upstream"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store"
)

// generations are the model calls of this node, by their streams. It is safe for
// concurrent use.
type generations struct {
	running group

	mu sync.Mutex // guards below
	of map[string]*generation
}

// generation is one model call, from before its stream is opened until that is sealed.
type generation struct {
	id      string
	request string        // its job's fingerprint
	opened  chan struct{} // closed when the open is won or lost
	stream  *plane.Stream // nil until won
}

// enter answers the generation of a stream, and whether it is a new one, which is the
// caller's to open and to leave; nil if there are as many as may be.
func (g *generations) enter(id, request string, limit int) (of *generation, isNew bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if of, ok := g.of[id]; ok {
		return of, false
	}
	if len(g.of) >= limit {
		return nil, false
	}
	if g.of == nil {
		g.of = make(map[string]*generation)
	}
	of = &generation{id: id, request: request, opened: make(chan struct{})}
	g.of[id] = of
	g.running.also()
	return of, true
}

func (g *generations) leave(of *generation) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.of, of.id)
	g.running.leave()
}

// Generates reports whether a stream's text is made here, by a model call that can't
// go to another node.
func (r *Router) Generates(id string) bool {
	r.generations.mu.Lock()
	defer r.generations.mu.Unlock()
	_, ok := r.generations.of[id]
	return ok
}

// AwaitGenerations returns when no model call runs here, or ctx is done.
func (r *Router) AwaitGenerations(ctx context.Context) {
	_ = r.generations.running.wait(ctx) // ctx tells its caller
}

// generate calls a model into a new stream, detached from whoever asks. Asked again, it
// answers what has become of it.
func (r *Router) generate(c echo.Context) error {
	var body wire.Generate
	if err := r.decodeUpTo(c, r.limits.GenerateBytes, &body); err != nil {
		return err
	}
	job, err := r.generator.Job(body.Upstream, body.Request)
	if err != nil {
		return r.noJob(err)
	}
	o, err := newOrder(streamID(c), job, body.Producer, body.Meta)
	if err != nil {
		return err
	}
	generated, isNew, err := r.begin(c.Request().Context(), o)
	status := http.StatusOK
	if isNew {
		status = http.StatusCreated
	}
	return answer(c, status, generated, err)
}

// noJob is why a request leads to no model call.
func (r *Router) noJob(err error) error {
	switch {
	case len(r.cfg.Generate.Upstreams) == 0:
		return wire.Detail(wire.ErrUnsupported, "the server has no upstreams; start it with --upstream")
	case errors.Is(err, generate.ErrUnnamed):
		return wire.Detail(wire.ErrBadRequest, "name the upstream: {\"upstream\":\"…\",\"request\":{…}}")
	case errors.Is(err, generate.ErrUnknown):
		return wire.Detail(wire.ErrBadRequest, "the server has %v; see --upstream", err)
	default:
		return wire.Detail(wire.ErrBadRequest, "the %v, in UTF-8, as the upstream takes it", err)
	}
}

// order is a model call for a stream.
type order struct {
	id       string
	job      generate.Job
	producer string
	meta     map[string]json.RawMessage // the application's
	end      func(error)                // told how the call ended, before the stream is sealed; may be nil
}

// generationKey is the member of a stream's meta that tells of its generation.
const generationKey = "generation"

func newOrder(id string, job generate.Job, producer string, meta json.RawMessage) (order, error) {
	o := order{id: id, job: job, producer: producer}
	if len(producer)+len(meta) > maxBody { // as of an open: the request may have more
		return o, wire.Detail(wire.ErrTooLarge, "producer and meta of a generation may have %d bytes", maxBody)
	}
	if producer == "" {
		o.producer = generationKey
	}
	if len(meta) == 0 {
		return o, nil
	}
	if json.Unmarshal(meta, &o.meta) != nil {
		return o, wire.Detail(wire.ErrBadRequest, "the meta of a generation is a JSON object")
	}
	if _, ok := o.meta[generationKey]; ok {
		return o, wire.Detail(wire.ErrBadRequest, "the member %s of meta is the server's to write", generationKey)
	}
	return o, nil
}

// describe is the stream's meta, with what is known of its generation.
func (o order) describe(res generate.Result) (json.RawMessage, error) {
	all := make(map[string]any, len(o.meta)+1)
	for name, value := range o.meta {
		all[name] = value
	}
	all[generationKey] = wire.Generation{
		Upstream: o.job.Upstream(), Request: o.job.Fingerprint(),
		Model: word(res.Model), FinishReason: word(res.FinishReason), Usage: storable(res.Usage),
	}
	meta, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("describe generation: %w", err)
	}
	return meta, nil
}

// begin begins a generation that runs on when ctx ends, unless the stream is there
// already: then it answers that one.
func (r *Router) begin(ctx context.Context, o order) (wire.Generated, bool, error) {
	ctx = context.WithoutCancel(ctx) // asked for is asked for, whoever stays to hear of it
	request := o.job.Fingerprint()
	for {
		g, isNew := r.generations.enter(o.id, request, r.limits.Generations)
		switch {
		case g == nil:
			return wire.Generated{}, false, wire.Detail(wire.ErrUnavailable, "as many generations as may are running")
		case isNew:
			return r.beginNew(ctx, g, o)
		}
		<-g.opened // which has a deadline, of the store
		if g.stream != nil {
			return sameRequest(generated(g.stream, wire.Generation{Upstream: o.job.Upstream(), Request: g.request}), request)
		}
		// Its open was refused, as ours will be, for a reason that is to be found out.
	}
}

func (r *Router) beginNew(ctx context.Context, g *generation, o order) (wire.Generated, bool, error) {
	meta, err := o.describe(generate.Result{})
	if err == nil {
		g.stream, err = r.openStream(ctx, plane.Claim{ID: o.id, Producer: o.producer, Meta: meta})
	}
	close(g.opened)
	if err != nil {
		r.generations.leave(g)
		if isTaken(err) {
			return r.begun(ctx, o, err)
		}
		return wire.Generated{}, false, err
	}
	as := g.stream.ProducerEpoch() // a resume by the same name would fence it
	r.serving.also()
	go func() {
		defer r.serving.leave()
		defer r.generations.leave(g)
		r.run(ctx, g.stream, as, o)
	}()
	return generated(g.stream, wire.Generation{Upstream: o.job.Upstream(), Request: g.request}), true, nil
}

// isTaken reports whether an open was refused since the stream is there.
func isTaken(err error) bool {
	for _, taken := range []error{plane.ErrOpenHere, plane.ErrExists, plane.ErrHeld, plane.ErrLostRace} {
		if errors.Is(err, taken) {
			return true
		}
	}
	return false
}

// begun answers a stream that is there already, whose open was refused for that: the
// row of one that a model call began says by what request.
func (r *Router) begun(ctx context.Context, o order, refused error) (wire.Generated, bool, error) {
	row, err := r.rows.Get(ctx, o.id)
	if err != nil {
		return wire.Generated{}, false, err
	}
	s, here := r.cfg.Actors.Stream(o.id)
	if row.Status == plane.StatusStreaming && !here {
		return wire.Generated{}, false, r.held(row.Row)
	}
	var meta struct{ Generation *wire.Generation }
	_ = json.Unmarshal(row.Meta, &meta) // another's may be anything
	switch keepsMeta := !row.Created.IsZero(); {
	case meta.Generation != nil:
	case keepsMeta || !row.Status.Ended():
		return wire.Generated{}, false, refused
	default: // an application's own table can't say more than that it has ended
		meta.Generation = &wire.Generation{Upstream: o.job.Upstream(), Request: o.job.Fingerprint()}
	}
	if here {
		return sameRequest(generated(s, *meta.Generation), o.job.Fingerprint())
	}
	return sameRequest(wire.Generated{
		Opened: ended(row), Generation: *meta.Generation,
	}, o.job.Fingerprint())
}

func generated(s *plane.Stream, g wire.Generation) wire.Generated {
	return wire.Generated{Opened: opened(s, plane.ProducerEpoch{}), Generation: g}
}

// sameRequest answers a generation that was begun by that request.
func sameRequest(g wire.Generated, request string) (wire.Generated, bool, error) {
	if g.Generation.Request != request {
		return wire.Generated{}, false, wire.Detail(plane.ErrExists, "the stream exists already, by another request; take another id")
	}
	return g, false, nil
}

// run calls the model and seals the stream. It ends with that: a drain, or another
// who ends it, seals it under its hands.
func (r *Router) run(ctx context.Context, s *plane.Stream, as plane.ProducerEpoch, o order) {
	began := time.Now()
	var res generate.Result
	err := r.contained(ctx, s.ID(), func() error {
		return s.PumpAs(ctx, as, -1, func(ctx context.Context) iter.Seq2[string, error] { return r.generator.Deltas(ctx, o.job, &res) })
	})
	if o.end != nil {
		o.end(whole(s, err))
	}
	if meta, err := o.describe(res); err == nil {
		s.SetMeta(meta)
	}
	status := "ended by another"
	ending, sealErr := r.sealGeneration(ctx, s, as, err)
	if sealErr == nil && ending.Status.Ended() {
		status = string(ending.Status)
	}
	r.cfg.Metrics.generated(o.job.Upstream(), status)
	level := slog.LevelInfo
	if sealErr != nil {
		level = slog.LevelWarn
	}
	r.log.LogAttrs(ctx, level, "generation ended",
		slog.String("streamId", s.ID()), slog.String("upstream", o.job.Upstream()), slog.String("status", status),
		slog.Int("attempts", res.Attempts), slog.Duration("took", time.Since(began)),
		slog.Any("error", errors.Join(err, sealErr)))
}

// errBroken ends a generation that panicked: what it said of itself is for the log.
var errBroken = errors.New("the response could not be taken")

// contained makes a panic of call an error: net/http has no hand in a generation's
// goroutine, and a response that nobody foresaw costs its stream, not the node (I).
func (r *Router) contained(ctx context.Context, id string, call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.log.LogAttrs(ctx, slog.LevelError, "panic in a generation",
				slog.String("streamId", id), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			err = errBroken
		}
	}()
	return call()
}

// whole is how a response came: nil if all of it did.
func whole(s *plane.Stream, err error) error {
	if err == nil && s.IsCancelled() {
		return plane.ErrCancelled
	}
	return err
}

// sealGeneration ends a stream whose model call ended with err.
func (r *Router) sealGeneration(ctx context.Context, s *plane.Stream, as plane.ProducerEpoch, err error) (plane.Ending, error) {
	switch {
	case err == nil:
		return s.CloseAs(ctx, as)
	case errors.Is(err, plane.ErrMoved):
		return plane.Ending{Status: plane.StatusInterrupted}, r.interruptElsewhere(ctx, s.ID())
	case errors.Is(err, plane.ErrClosed), errors.Is(err, plane.ErrFenced):
		return plane.Ending{}, nil
	case errors.Is(err, upstream.ErrTruncated):
		return s.InterruptAs(ctx, as)
	default:
		return s.FailAs(ctx, as, store.Sound(err.Error()))
	}
}
