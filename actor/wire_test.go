package actor_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
)

var (
	errCut  = errors.New("connection reset")
	errDown = errors.New("no route to the owner")
)

// wire is a relay to another system, and what goes wrong with it.
type wire struct {
	to    *actor.System
	blind bool                                             // the owner is not told of which epoch the reader is
	epoch func(int64) int64                                // makes another of the epoch that is told; may be nil
	twist func(plane.Frame) ([]plane.Frame, time.Duration) // what becomes of a frame, and when; may be nil

	mu       sync.Mutex // guards below
	down     bool       // nothing can be attached
	silent   bool       // a source says nothing
	flaps    bool       // a source says one thing, and breaks
	cuts     chan struct{}
	asked    []actor.Access
	open     int
	failures []actor.Failure
}

func newWire(to *actor.System) *wire { return &wire{to: to, cuts: make(chan struct{})} }

func (w *wire) relay() *actor.Relay {
	return &actor.Relay{Attach: w.attach, Failed: func(f actor.Failure) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.failures = append(w.failures, f)
	}}
}

func (w *wire) attach(ctx context.Context, id string, from, epoch int64) (actor.Source, int64, error) {
	w.mu.Lock()
	if w.blind {
		epoch = 0
	}
	access := actor.Access{Principal: "u1", StreamID: id, From: from, Epoch: epoch, Local: true}
	w.asked = append(w.asked, access)
	to, down, silent, flaps, cuts := w.to, w.down, w.silent, w.flaps, w.cuts
	w.mu.Unlock()
	if down {
		return nil, 0, errDown
	}
	c, err := to.Subscribe(ctx, access)
	if err != nil {
		return nil, 0, err
	}
	if c.Stream() == nil {
		c.Close()
		return nil, 0, nil
	}
	w.mu.Lock()
	w.open++
	w.mu.Unlock()
	at := c.Stream().Epoch()
	if w.epoch != nil {
		at = w.epoch(at)
	}
	return &wireSource{wire: w, cursor: c, cut: cuts, silent: silent, flaps: flaps, epoch: at}, at, nil
}

// cut breaks all that is attached now.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.cuts)
	w.cuts = make(chan struct{})
}

// set changes what goes wrong.
func (w *wire) set(change func(*wire)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
}

// attaches is how often the wire was asked, and how many sources are open.
func (w *wire) attaches() (asked, open int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.asked), w.open
}

func (w *wire) want(t *testing.T, asked, open int) {
	t.Helper()
	if a, o := w.attaches(); a != asked || o != open {
		t.Errorf("asked %d times, and %d sources are open; want %d and %d", a, o, asked, open)
	}
}

func (w *wire) failed() (phases []actor.Phase) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.failures {
		phases = append(phases, f.Phase)
	}
	return phases
}

// flapped is cut.
var flapped = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// wireSource is what comes over the wire.
type wireSource struct {
	wire   *wire
	cursor *plane.Cursor
	cut    chan struct{}
	silent bool
	flaps  bool
	epoch  int64
	queue  []plane.Frame
}

func (s *wireSource) Next(ctx context.Context) (plane.Frame, error) {
	for {
		select {
		case <-s.cut:
			return plane.Frame{}, errCut
		default:
		}
		if len(s.queue) > 0 {
			f := s.queue[0]
			s.queue = s.queue[1:]
			if s.flaps {
				s.cut = flapped
			}
			return f, nil
		}
		f, ok, more := s.cursor.Poll()
		switch {
		case s.silent:
			more = nil
		case !ok && more == nil:
			return plane.Frame{}, io.EOF
		case ok:
			if err := s.take(ctx, f); err != nil {
				return plane.Frame{}, err
			}
			continue
		}
		select {
		case <-more:
		case <-s.cut:
		case <-ctx.Done():
			return plane.Frame{}, ctx.Err()
		}
	}
}

// take queues what becomes of a frame.
func (s *wireSource) take(ctx context.Context, f plane.Frame) error {
	if f.Epoch != 0 {
		f.Epoch = s.epoch
	}
	late := time.Duration(0)
	s.queue = append(s.queue, f)
	if s.wire.twist != nil {
		s.queue, late = s.wire.twist(f)
	}
	if late == 0 {
		return nil
	}
	timer := time.NewTimer(late)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *wireSource) Close() error {
	s.cursor.Close()
	s.wire.mu.Lock()
	defer s.wire.mu.Unlock()
	s.wire.open--
	return nil
}

// pair is an owner, and a node whose readers attach what the owner hosts.
type pair struct {
	owner, edge *host
	wire        *wire
}

func newPair(t *testing.T, change func(*actor.Config)) *pair {
	t.Helper()
	p := &pair{owner: newHost(t, nil)}
	p.wire = newWire(p.owner.System)
	p.edge = newHost(t, func(c *actor.Config) {
		c.Node, c.Plane.Store, c.Relay = "n/2", p.owner.store, p.wire.relay()
		if change != nil {
			change(c)
		}
	})
	return p
}

// join subscribes at the edge.
func (p *pair) join(t *testing.T, id string, from int64) *plane.Cursor {
	t.Helper()
	c, err := p.edge.Subscribe(t.Context(), actor.Access{Principal: "u1", StreamID: id, From: from})
	if err != nil {
		t.Fatalf("subscribe at the edge: %v", err)
	}
	return c
}

func push(t *testing.T, s *plane.Stream, text string) {
	t.Helper()
	if err := s.Push(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}
