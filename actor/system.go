// Package actor is the addressing of streams on one node: it holds at most one
// live activation of each streamId, from its opening through its end to its
// retirement, and decides nothing about HTTP.
//
// An open stream that is idle costs its plane.Stream, an activation and a map
// entry, 1.4 KB together and its text, and no goroutine and no timer of its own;
// BenchmarkIdleStream measures it. An ended stream costs one timer more until
// its linger is over.
package actor

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

// Defaults of Config.
const (
	DefaultLinger     = 30 * time.Second
	DefaultMaxStreams = 250_000
	DefaultJoinWait   = 2 * time.Second
	DefaultRepair     = time.Second

	DefaultProducerTimeout = time.Minute

	DefaultAttachWindow = 2 * time.Second
	DefaultAttachLinger = time.Second
	DefaultMaxMirrors   = 100_000
)

// Config says how a node hosts streams.
type Config struct {
	Plane plane.Config
	Node  string // node/incarnation, unique to this process: the owner token without its epoch; required

	// Authorize decides on every subscription before existence is looked at
	// (A). Only true allows; required.
	Authorize func(ctx context.Context, access Access) (bool, error)

	Linger     time.Duration // how long an ended stream can still be joined; 0 means DefaultLinger
	MaxStreams int           // open and lingering streams at once; 0 means DefaultMaxStreams
	JoinWait   time.Duration // how long a reader waits for an open being decided; 0 means DefaultJoinWait
	Repair     time.Duration // before what the store did not take is tried again; 0 means DefaultRepair

	// ProducerTimeout is how long a stream waits for its producer: one that is not
	// connected (plane.Stream.Hold), and of which nothing has come for that long, and a
	// second more or an eighth of it, is gone, and its stream is sealed interrupted. 0
	// means DefaultProducerTimeout, less that streams wait for ever.
	ProducerTimeout time.Duration

	// Relay is how streams that other nodes host are read here; nil for a node that
	// is alone.
	Relay        *Relay
	AttachWindow time.Duration // from an attach, or the loss of one, to the next frame; 0 means DefaultAttachWindow
	AttachLinger time.Duration // how long an attach outlives its last reader; 0 means DefaultAttachLinger, less none
	MaxMirrors   int           // streams attached at once; 0 means DefaultMaxMirrors
	MirrorRetain int64         // as in plane.MirrorConfig
}

// Access is what somebody wants to do.
type Access struct {
	Principal any // who, as the caller of Subscribe knows it
	StreamID  string
	From      int64 // the offset to read from
	Epoch     int64 // the epoch in which From was given out; 0 is not known
	Local     bool  // only what is hosted here counts: another node asks, and goes on asking itself
}

// System holds a node's activations. Its methods are safe for concurrent use.
type System struct {
	cfg      Config
	opening  sync.WaitGroup // opens being decided
	draining context.Context
	drain    context.CancelFunc
	pressed  atomic.Bool // relief is on its way

	unanswered atomic.Int64 // opens whose claims are to be given back
	returning  sync.Map     // ids of adoptions and takeovers among them

	log     *slog.Logger
	counts  counts         // of the relay
	tasks   sync.WaitGroup // what the relay runs
	closing context.Context
	close   context.CancelFunc

	relieving sync.Mutex // held by who gives text up
	watch     *watch     // for producers that are gone

	mu        sync.Mutex // guards below
	active    map[string]*activation
	left      map[string]*time.Timer // what is not to come back yet, by id
	given     map[string]plane.Row   // rows that were given up, for others to adopt
	strays    map[string]bool        // whose rows are to be given back, for they have this node's token
	unsure    map[string]bool        // whose claim is being given back, by a call without an answer so far
	live      int                    // activations whose stream is being opened or has not ended
	lingering list.List              // lingerers, in the order in which they ended
	trimmed   time.Time              // when relief last looked at all live streams
	links     map[string]*link
	rests     map[string]*pause // of streams that could not be attached just now
}

// activation is one stream on this node.
type activation struct {
	decided chan struct{} // closed when the open is won or lost
	stream  *plane.Stream // nil until won
	ended   bool
	retire  *time.Timer   // set when the stream has ended
	place   *list.Element // among those that linger; nil if it does not

	before, after *activation // in a bucket of System.watch, whose they are; nil if it is in none
}

// New returns a system that hosts nothing yet.
func New(cfg Config) (*System, error) {
	switch {
	case cfg.Authorize == nil:
		return nil, fmt.Errorf("%w: Authorize is required", plane.ErrConfig)
	case cfg.Node == "":
		return nil, fmt.Errorf("%w: Node is required", plane.ErrConfig)
	case cfg.Linger < 0 || cfg.JoinWait < 0 || cfg.Repair < 0 || cfg.MaxStreams < 0:
		return nil, fmt.Errorf("%w: Linger, JoinWait, Repair and MaxStreams must be 0 or more", plane.ErrConfig)
	case cfg.AttachWindow < 0 || cfg.MaxMirrors < 0 || cfg.MirrorRetain < 0:
		return nil, fmt.Errorf("%w: AttachWindow, MaxMirrors and MirrorRetain must be 0 or more", plane.ErrConfig)
	case cfg.Relay == nil && (cfg.AttachWindow != 0 || cfg.AttachLinger != 0 || cfg.MaxMirrors != 0 || cfg.MirrorRetain != 0):
		return nil, fmt.Errorf("%w: what is set for attached streams needs a Relay", plane.ErrConfig)
	}
	if err := cfg.Relay.validate(); err != nil {
		return nil, err
	}
	cfg.Linger = cmp.Or(cfg.Linger, DefaultLinger)
	cfg.JoinWait = cmp.Or(cfg.JoinWait, DefaultJoinWait)
	cfg.Repair = cmp.Or(cfg.Repair, DefaultRepair)
	cfg.MaxStreams = cmp.Or(cfg.MaxStreams, DefaultMaxStreams)
	cfg.AttachWindow = cmp.Or(cfg.AttachWindow, DefaultAttachWindow)
	cfg.AttachLinger = cmp.Or(cfg.AttachLinger, DefaultAttachLinger)
	cfg.MaxMirrors = cmp.Or(cfg.MaxMirrors, DefaultMaxMirrors)
	if err := cfg.Plane.Validate(); err != nil {
		return nil, err
	}
	y := &System{
		active: make(map[string]*activation), left: make(map[string]*time.Timer), given: make(map[string]plane.Row), unsure: make(map[string]bool), strays: make(map[string]bool),
		links: make(map[string]*link), rests: make(map[string]*pause),
		log: cmp.Or(cfg.Plane.Logger, slog.New(slog.DiscardHandler)),
	}
	y.watch = newWatch(cmp.Or(cfg.ProducerTimeout, DefaultProducerTimeout), y.interruptSilent)
	if y.watch != nil {
		cfg.Plane.Clock = y.watch.clock
	}
	y.draining, y.drain = context.WithCancel(context.Background())
	y.closing, y.close = context.WithCancel(context.Background())
	told := cfg.Plane.Hooks.Ended
	cfg.Plane.Hooks.Ended = func(s *plane.Stream, end plane.Ending) {
		y.ended(s, end)
		if told != nil {
			told(s, end)
		}
	}
	moved := cfg.Plane.Hooks.Moved
	cfg.Plane.Hooks.Moved = func(s *plane.Stream, m plane.Moved) {
		y.moved(s, m)
		if moved != nil {
			moved(s, m)
		}
	}
	exceeded := cfg.Plane.Hooks.Exceeded
	cfg.Plane.Hooks.Exceeded = func() {
		y.press()
		if exceeded != nil {
			exceeded()
		}
	}
	y.cfg = cfg
	return y, nil
}

// Open claims a stream and makes it live here. claim.Node is the system's own.
// A name that is held, opening, live or lingering, is refused with
// plane.ErrOpenHere; a node that is full, of streams or of text, refuses with
// plane.ErrFull; a drain that overtakes the open ends it with
// plane.ErrDraining. plane.ErrNoAnswer says that the node gives back an earlier
// claim, and does not know yet how that went.
func (y *System) Open(ctx context.Context, claim plane.Claim) (*plane.Stream, error) {
	claim.Node = y.cfg.Node
	return y.activate(ctx, claim.ID, way{
		open: func(ctx context.Context) (*plane.Stream, error) { return plane.Open(ctx, y.cfg.Plane, claim) },
		undo: func(ctx context.Context, s *plane.Stream) error { _, err := s.Interrupt(ctx); return err },
		lost: func(error) error {
			y.giveBack(unanswered{claim: plane.Claim{ID: claim.ID, Node: claim.Node}})
			return nil
		},
	})
}

// way is how a stream becomes live here.
type way struct {
	adopts bool

	open func(context.Context) (*plane.Stream, error)
	undo func(context.Context, *plane.Stream) error // gives back what was won, and nobody will serve
	lost func(error) error                          // sees to what failed, and may have been won all the same
}

// activate makes a stream live here, unless a drain overtakes it.
func (y *System) activate(ctx context.Context, id string, w way) (*plane.Stream, error) {
	y.relieve()
	full := y.cfg.Plane.Budget.Exceeded()
	y.mu.Lock()
	if y.unsure[id] {
		y.mu.Unlock()
		return nil, fmt.Errorf("%q was just given back: %w", id, plane.ErrNoAnswer)
	}
	a, err := y.reserve(id, full, w.adopts)
	y.mu.Unlock()
	if err != nil {
		return nil, err
	}
	defer y.opening.Done()
	opening, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(y.draining, cancel)()
	stream, err := w.open(opening)

	y.mu.Lock()
	overtaken := y.draining.Err() != nil
	if err == nil && !overtaken {
		a.stream = stream
		if y.hosted(id); !a.ended {
			y.watch.add(a)
		}
	} else {
		delete(y.active, id)
		y.live--
	}
	close(a.decided)
	y.mu.Unlock()

	if err != nil && !plane.Refused(err) && !errors.Is(err, errors.ErrUnsupported) {
		err = errors.Join(err, w.lost(err))
	}
	switch {
	case overtaken && err == nil:
		return nil, errors.Join(plane.ErrDraining, w.undo(context.WithoutCancel(ctx), stream))
	case overtaken:
		return nil, errors.Join(plane.ErrDraining, err)
	case err == nil:
		y.publish(stream)
	}
	return stream, err
}

// reserve takes the name for a stream that is to be live, unless the node is full.
// y.mu is held.
func (y *System) reserve(id string, full, adopts bool) (*activation, error) {
	switch {
	case y.draining.Err() != nil:
		return nil, plane.ErrDraining
	case y.active[id] != nil:
		return nil, plane.ErrOpenHere
	case adopts && y.left[id] != nil:
		return nil, plane.ErrMoved
	case full, len(y.active) >= y.cfg.MaxStreams:
		return nil, plane.ErrFull
	}
	a := &activation{decided: make(chan struct{})}
	y.active[id] = a
	y.links[id].interrupt()
	y.live++
	y.opening.Add(1)
	return a, nil
}

// Stream returns the stream that is live or lingering here.
func (y *System) Stream(id string) (*plane.Stream, bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if a := y.active[id]; a != nil && a.stream != nil {
		return a.stream, true
	}
	return nil, false
}

// ended starts the linger of a stream that has ended for its readers. One whose
// row is another's goes at once: its readers belong elsewhere.
func (y *System) ended(s *plane.Stream, end plane.Ending) {
	if y.cfg.Plane.Budget.Exceeded() {
		defer y.press()
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	a := y.active[s.ID()]
	if a == nil || a.ended || a.stream != s && a.stream != nil { // nil while Open returns
		return
	}
	a.ended = true
	y.live--
	y.watch.remove(a)
	switch {
	case errors.Is(end.Err, plane.ErrFenced):
		y.remove(a, s.ID())
		s.Retire()
		// It may be this node's, by an earlier claim.
		y.giveBack(unanswered{claim: plane.Claim{ID: s.ID(), Node: y.cfg.Node}, adopted: true})
	case end.Err != nil && !errors.Is(end.Err, plane.ErrTextLost):
		y.resealLater(a, s, y.cfg.Repair)
	default:
		y.retireLater(a, s)
	}
}

// retireLater frees the name after the linger. The timer is the activation's,
// not the name's. y.mu is held.
func (y *System) retireLater(a *activation, s *plane.Stream) {
	a.place = y.lingering.PushBack(lingerer{a, s})
	a.retire = time.AfterFunc(y.cfg.Linger, func() { y.retire(a, s) })
}

// Counts says how many streams are live (or opening) and how many linger.
func (y *System) Counts() (live, lingering int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.live, len(y.active) - y.live
}

// Node returns the node/incarnation that owner tokens of this node begin with.
func (y *System) Node() string { return y.cfg.Node }

// Draining reports whether Shut, Drain or Close was called.
func (y *System) Draining() bool { return y.draining.Err() != nil }

// Streams returns all that are live or linger.
func (y *System) Streams() []*plane.Stream {
	y.mu.Lock()
	defer y.mu.Unlock()
	streams := make([]*plane.Stream, 0, len(y.active))
	for _, a := range y.active {
		if a.stream != nil {
			streams = append(streams, a.stream)
		}
	}
	return streams
}
