package actor_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/plane"
)

// script runs the ops of one vector and notes everything that comes out. It
// lives in a synctest bubble: after every op all that can run has run.
type script struct {
	t      *testing.T
	vector vector
	store  *vectorStore
	nodes  map[string]*node
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	subs   map[string]*subscriber
	leaves map[string]context.CancelFunc // of those, also before they are answered

	mu      sync.Mutex // guards below
	op      int
	handles map[string]*plane.Stream
	streams map[string]string // their names
	steps   map[int]*step
	pending map[string]bool // calls that have not come back
	pumps   map[string]pumped
	pushed  map[string]string // what each stream took, by its name
	failed  []plane.Checkpoint
	answers []json.RawMessage // of callback mode, in order
	changes []plane.Change    // that callback mode was given
	held    []chan struct{}   // calls of callback mode that have not been let in

	began time.Time
	relay *scriptRelay
}

// The faults that vectors speak of, beside the store's own.
var (
	errAuthorizer = errors.New("authorizer threw")
	errGenerator  = errors.New("generator threw")
	errNotOpen    = errors.New("the script has no such stream")
)

// play runs a vector from its first op to its last.
func play(t *testing.T, v vector) *script {
	s := &script{
		t: t, vector: v, store: newVectorStore(v.Config), nodes: map[string]*node{},
		subs: map[string]*subscriber{}, leaves: map[string]context.CancelFunc{}, handles: map[string]*plane.Stream{}, streams: map[string]string{}, steps: map[int]*step{},
		pending: map[string]bool{}, pumps: map[string]pumped{}, pushed: map[string]string{}, answers: v.Config.CommitAnswers,
	}
	s.ctx, s.cancel = context.WithCancel(t.Context())
	s.began, s.relay = time.Now(), newScriptRelay()
	for _, name := range v.Config.names() {
		s.nodes[name] = &node{cfg: v.Config.plane(t, name)}
		s.start(name)
	}
	before := s.store.show()
	for i, o := range v.Ops {
		s.mu.Lock()
		s.op = i
		s.mu.Unlock()
		s.do(o)
		s.settle()
		after := s.store.show()
		s.noteStore(before, after)
		before = after
	}
	return s
}

// settle lets all that can run run. Readers come before the application of
// callback mode, which is let in only then: text that it has confirmed may be
// trimmed at once, and in the recorded implementation a push hands its text to
// the readers before it does anything else.
func (s *script) settle() {
	for {
		synctest.Wait()
		s.mu.Lock()
		held := s.held
		s.held = nil
		s.mu.Unlock()
		if len(held) == 0 {
			return
		}
		for _, call := range held {
			close(call)
		}
	}
}

// end gives back all that the script still holds, and waits for it.
func (s *script) end() {
	s.store.Clear()
	s.cancel()
	for _, sub := range s.subs {
		sub.close()
	}
	for _, n := range s.nodes {
		if err := n.system.Close(context.Background()); err != nil {
			s.t.Errorf("close system: %v", err)
		}
	}
	s.tasks.Wait()
}

// do runs one op.
func (s *script) do(o op) {
	switch o.Op {
	case "open":
		s.call(o.As, func() (*int64, error) { return nil, s.open(o) })
	case "push":
		s.push(o.H, o.Text)
	case "burst":
		for _, text := range o.Texts {
			s.push(o.H, text)
		}
	case "flush":
		s.on(o, func(h *plane.Stream) (*int64, error) { n, err := h.Flush(s.ctx); return &n, err })
	case "close":
		s.on(o, func(h *plane.Stream) (*int64, error) { _, err := h.Close(s.ctx); return nil, err })
	case "fail":
		s.on(o, func(h *plane.Stream) (*int64, error) { _, err := h.Fail(s.ctx, o.message()); return nil, err })
	case "drain":
		system := s.node(o.Plane).system
		s.call(o.As, func() (*int64, error) { return nil, system.Drain(s.ctx) })
	case "pump":
		s.on(o, func(h *plane.Stream) (*int64, error) { return nil, h.Pump(s.ctx, s.source(o)) })
	case "shutdown":
		if err := s.node(o.Plane).system.Close(s.ctx); err != nil {
			s.t.Errorf("shutdown: %v", err)
		}
		s.start(s.name(o.Plane))
	case "tick":
		time.Sleep(time.Duration(o.Ms) * time.Millisecond)
	case "subscribe":
		s.subscribe(o)
	case "read":
		s.subs[o.Sub].read(o.N)
	case "readAll":
		s.subs[o.Sub].read(-1)
	case "closeSub":
		s.leaves[o.Sub]()
		synctest.Wait()
		if sub := s.subs[o.Sub]; sub != nil {
			sub.close()
		}
	case "attachPlan":
		s.relay.plans(o.Plan)
	case "feed":
		s.relay.feed(s.t, o)
	case "busTrim":
		s.relay.trim(o.Stream, o.Below)
	default:
		s.store.do(s.t, o)
	}
}

func (s *script) name(plane string) string {
	if plane == "" {
		return "A"
	}
	return plane
}

func (s *script) node(plane string) *node { return s.nodes[s.name(plane)] }

// on calls something of an open stream.
func (s *script) on(o op, f func(*plane.Stream) (*int64, error)) {
	s.call(o.As, func() (*int64, error) {
		h := s.handle(o.H)
		if h == nil {
			return nil, errNotOpen
		}
		return f(h)
	})
}

func (s *script) handle(name string) *plane.Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handles[name]
}

func (s *script) open(o op) error {
	stream, err := s.node(o.Plane).system.Open(s.ctx, plane.Claim{ID: o.Stream, Meta: o.Meta})
	if err == nil {
		s.mu.Lock()
		s.handles[o.As], s.streams[o.As] = stream, o.Stream
		s.mu.Unlock()
	}
	return err
}

func (s *script) push(h string, text vectorText) {
	err := errNotOpen
	if stream := s.handle(h); stream != nil {
		err = stream.Push(s.ctx, string(text))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.pushed[s.streams[h]] += string(text)
	} else {
		s.now().threw = append(s.now().threw, err)
	}
}

// call starts something that may take a while, and notes when it comes back.
func (s *script) call(as string, f func() (*int64, error)) {
	s.mu.Lock()
	s.pending[as] = true
	s.mu.Unlock()
	s.tasks.Go(func() {
		value, err := f()
		if s.ctx.Err() != nil {
			return // the script is over
		}
		out := outcome{ID: as, OK: err == nil, err: err}
		if err == nil {
			out.Value = value
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.pending, as)
		s.now().Settled = append(s.now().Settled, out)
	})
}

// now is what is known of the current step. s.mu is held.
func (s *script) now() *step {
	st := s.steps[s.op]
	if st == nil {
		st = &step{Op: s.op}
		s.steps[s.op] = st
	}
	return st
}

func (s *script) noteStore(before, after map[string]stored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := map[string]stored{}
	for id, now := range after {
		if was, ok := before[id]; !ok || !cmp.Equal(was, now) {
			changed[id] = now
		}
	}
	if len(changed) > 0 {
		s.now().Store = changed
	}
}

// source is the upstream of a pump: it does not look at its context, as a
// generator that waits for a model does not.
func (s *script) source(o op) func(context.Context) iter.Seq2[string, error] {
	return func(context.Context) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			var p pumped
			defer func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.pumps[o.As] = p
			}()
			gap := time.Duration(o.GapMs) * time.Millisecond
			for _, text := range o.Texts {
				time.Sleep(gap)
				p.Pulled++
				s.mu.Lock()
				s.pushed[s.streams[o.H]] += string(text)
				s.mu.Unlock()
				if !yield(string(text), nil) {
					p.Closed = true
					return
				}
			}
			time.Sleep(gap)
			if o.ThrowAtEnd {
				yield("", errGenerator)
			}
		}
	}
}

// unsettled returns the calls that have not come back.
func (s *script) unsettled() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.pending))
}
