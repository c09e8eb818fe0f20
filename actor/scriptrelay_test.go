package actor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
)

// The failures of a relay that vectors speak of.
var (
	errAttachThrew     = errors.New("attach threw")
	errAttachRejected  = errors.New("attach rejected")
	errIteratorThrew   = errors.New("iterator threw")
	errSourceThrew     = errors.New("source threw")
	errPublishThrew    = errors.New("publish threw")
	errPublishRejected = errors.New("publish rejected")
)

// scriptRelay is the relay of a script's nodes: it answers as the script says, or
// is a bus between them that remembers all it was given.
type scriptRelay struct {
	mu         sync.Mutex // guards below
	plan       []plan
	sources    map[string]*scriptSource
	log        map[string][]plane.Frame
	readers    map[string][]*scriptSource // of the log
	published  []published
	attaches   []attached
	complaints []actor.Failure
	complained []int64
}

func newScriptRelay() *scriptRelay {
	return &scriptRelay{
		sources: map[string]*scriptSource{}, log: map[string][]plane.Frame{}, readers: map[string][]*scriptSource{},
	}
}

// relayOf is the relay as one node uses it.
func (s *script) relayOf(name string, p planeConfig) *actor.Relay {
	r := s.relay
	relay := &actor.Relay{Failed: func(f actor.Failure) {
		r.mu.Lock()
		r.complaints = append(r.complaints, f)
		r.complained = append(r.complained, time.Since(s.began).Milliseconds())
		r.mu.Unlock()
		if p.HookThrows {
			panic("hook threw")
		}
	}}
	if p.Relay.Publish != "" {
		relay.Publish = func(_ context.Context, id string, f plane.Frame) error {
			return r.publish(name, p.Relay.Publish, id, f)
		}
	}
	if p.Relay.Attach != "" {
		relay.Attach = func(_ context.Context, id string, from, _ int64) (actor.Source, int64, error) {
			r.mu.Lock()
			r.attaches = append(r.attaches, attached{time.Since(s.began).Milliseconds(), name, id, from})
			r.mu.Unlock()
			if p.Relay.Attach == "bus" {
				return r.subscribe(id), 0, nil
			}
			source, err := r.attach(s.ctx)
			if source == nil {
				return nil, 0, err
			}
			return source, 0, err
		}
	}
	return relay
}

func (r *scriptRelay) publish(node, how, id string, f plane.Frame) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.published = append(r.published, published{node, id, frameOf(f)})
	switch how {
	case "throw":
		panic(errPublishThrew)
	case "reject":
		return errPublishRejected
	case "bus":
		f.Epoch = 0
		r.log[id] = append(r.log[id], f)
		for _, reader := range r.readers[id] {
			reader.put(item{frame: f})
		}
	}
	return nil
}

// subscribe reads the log from its beginning.
func (r *scriptRelay) subscribe(id string) actor.Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	source := newScriptSource()
	r.sources[fmt.Sprintf("bus%d", len(r.sources))] = source
	for _, f := range r.log[id] {
		source.put(item{frame: f})
	}
	r.readers[id] = append(r.readers[id], source)
	return source
}

// trim makes the log forget the text below an offset.
func (r *scriptRelay) trim(id string, below int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log[id] = slices.DeleteFunc(r.log[id], func(f plane.Frame) bool {
		return f.Kind == plane.KindChunk && f.From < below
	})
}

func (r *scriptRelay) plans(p []plan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plan = append(r.plan, p...)
	for _, p := range p {
		if p.As != "" {
			r.sources[p.As] = newScriptSource()
		}
	}
}

// attach answers as planned; what is not planned is declined.
func (r *scriptRelay) attach(over context.Context) (*scriptSource, error) {
	r.mu.Lock()
	if len(r.plan) == 0 {
		r.mu.Unlock()
		return nil, nil
	}
	p := r.plan[0]
	r.plan = r.plan[1:]
	source := r.sources[p.As]
	r.mu.Unlock()
	switch p.Answer {
	case "source":
		return source, nil
	case "late": // and does not look at its context
		time.Sleep(time.Duration(p.Ms) * time.Millisecond)
		return source, nil
	case "throw":
		panic(errAttachThrew)
	case "reject":
		return nil, errAttachRejected
	case "hang":
		<-over.Done()
		return nil, nil
	case "badIterator":
		source = newScriptSource()
		source.put(item{err: errIteratorThrew})
		return source, nil
	default:
		return nil, nil
	}
}

// feed gives a source frames, as they come over the wire.
func (r *scriptRelay) feed(t *testing.T, o op) {
	t.Helper()
	r.mu.Lock()
	source := r.sources[o.Src]
	r.mu.Unlock()
	for _, raw := range o.Frames {
		source.put(itemOf(t, raw))
	}
}

func itemOf(t *testing.T, raw json.RawMessage) item {
	t.Helper()
	switch string(raw) {
	case `"END"`:
		return item{err: io.EOF}
	case `"FAIL"`:
		return item{err: errSourceThrew}
	}
	f, err := plane.ParseFrame(raw)
	return item{f, err}
}

// item is what a source says next.
type item struct {
	frame plane.Frame
	err   error
}

// scriptSource says what it is given.
type scriptSource struct {
	mu      sync.Mutex // guards below
	queue   []item
	news    chan struct{} // closed when there is something
	started bool
	closed  int
}

func newScriptSource() *scriptSource { return &scriptSource{news: make(chan struct{})} }

func (s *scriptSource) put(i item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, i)
	if len(s.queue) == 1 {
		close(s.news)
	}
}

func (s *scriptSource) Next(ctx context.Context) (plane.Frame, error) {
	for {
		s.mu.Lock()
		s.started = true
		news := s.news
		if len(s.queue) > 0 {
			i := s.queue[0]
			if s.queue = s.queue[1:]; len(s.queue) == 0 {
				s.news = make(chan struct{})
			}
			s.mu.Unlock()
			return i.frame, i.err
		}
		s.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return plane.Frame{}, ctx.Err()
		}
	}
}

func (s *scriptSource) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	return nil
}

// used is how all sources were used.
func (r *scriptRelay) used() map[string]sourced {
	r.mu.Lock()
	defer r.mu.Unlock()
	used := map[string]sourced{}
	for name, s := range r.sources {
		s.mu.Lock()
		if u := (sourced{Closed: s.closed}); s.started || s.closed > 0 {
			u.Iterators = 1 // ours has no iterator to make: it is the source that is read
			used[name] = u
		}
		s.mu.Unlock()
	}
	return used
}
