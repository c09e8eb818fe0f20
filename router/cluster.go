package router

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/wire"
)

// Cluster is this node's place among the nodes that share its store. Its methods
// are safe for concurrent use. Members are named as owner tokens name them,
// node/incarnation.
type Cluster interface {
	// Self is this node.
	Self() string

	// Owner is the member that the ring proposes for a stream: where it is opened.
	// Where it is then, its row says. "" while the ring has nobody.
	Owner(streamID string) string

	// Has reports whether a member is known, has not left, and was not restarted.
	Has(member string) bool

	// Takers are the other members that may adopt a stream which was given up, the one
	// first that the ring has for it.
	Takers(streamID string) []string

	// Waits reports whether a member can't write for now, while others can, or could
	// not and has yet to look what is still its own: what it has, others may take over.
	Waits(member string) bool

	// Digest names the set of members that the ring is made of.
	Digest() string

	// Do sends a request to a member. peer.ErrUnreachable if it did not get there.
	Do(ctx context.Context, member string, req *http.Request) (*http.Response, error)

	// Describe is what GET /v1/cluster says of the members, but for what they hold.
	Describe() wire.Cluster
}

// heldBy is plane.ErrHeld of a stream that another live member has.
type heldBy struct {
	member string
	seq    int64 // the row's length, if it was this node that read it
}

func (h *heldBy) Error() string { return plane.ErrHeld.Error() + " (" + h.member + ")" }
func (h *heldBy) Unwrap() error { return plane.ErrHeld }

// held is why a stream that is streaming by its row can't be served here. One that
// is on its way to another node is nobody's for a moment.
func (r *Router) held(row plane.Row) error {
	member := plane.NodeOf(row.Token)
	switch {
	case row.Disowned():
		return &plane.OffsetError{Kind: plane.ErrMoved, Want: row.Seq}
	case r.cfg.Cluster == nil && sameNode(member, r.cfg.Actors.Node()):
		return errLeft
	case r.cfg.Cluster == nil || member == "":
		return plane.ErrHeld
	case member == r.cfg.Cluster.Self():
		return errStray
	case !r.cfg.Cluster.Has(member):
		return errGone
	default:
		return &heldBy{member, row.Seq}
	}
}

// waits reports whether a producer is better off with another node than with this
// one, which has its stream and can't write it.
func (r *Router) waits() bool {
	return r.cfg.Cluster != nil && r.cfg.Cluster.Waits(r.cfg.Cluster.Self())
}

// sameNode reports whether two members are runs of one node.
func sameNode(a, b string) bool {
	node, _, ok := strings.Cut(a, "/")
	return ok && strings.HasPrefix(b, node+"/")
}

// host is the member that a row says has the stream, if that is another live one.
func (r *Router) host(row plane.Row) (member string, ok bool) {
	if row.Status != plane.StatusStreaming {
		return "", false
	}
	h, ok := errors.AsType[*heldBy](r.held(row))
	if !ok {
		return "", false
	}
	return h.member, true
}

// How long, and how many, a node remembers where streams are.
const (
	placeTime = 5 * time.Second
	maxPlaces = 10_000
)

// places remembers where rows said that streams are, for a moment: the ring tells
// where they should be, which is the same as a rule. It is safe for concurrent
// use.
type places struct {
	mu sync.Mutex // guards below
	of map[string]placed
}

type placed struct {
	member string
	until  time.Time
}

func (p *places) learn(id, member string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.of) >= maxPlaces {
		clear(p.of) // the rows say it again
	}
	if p.of == nil {
		p.of = make(map[string]placed)
	}
	p.of[id] = placed{member, time.Now().Add(placeTime)}
}

func (p *places) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, id)
}

func (p *places) get(id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.of[id]
	if ok && time.Now().After(at.until) {
		delete(p.of, id)
		return ""
	}
	return at.member
}

// place is the member to ask first for a stream that is not here.
func (r *Router) place(id string) string {
	member := r.places.get(id)
	if member != "" && member != r.cfg.Cluster.Self() && r.cfg.Cluster.Has(member) && !r.cfg.Cluster.Waits(member) {
		return member
	}
	return r.cfg.Cluster.Owner(id)
}
