package router

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/router/peer"
)

// What goes wrong between nodes goes wrong for all their streams and readers at once:
// the log is told of it once, and metrics count the rest.

// quiet is how long nothing more is said of what was said, should it begin again.
const quiet = 10 * time.Second

// outages is what the log was told of members that can't be asked. It is safe for
// concurrent use.
type outages struct {
	mu sync.Mutex // guards below
	of map[string]*outage
}

type outage struct {
	toldAt time.Time
	told   bool // and not yet that it is over
	failed int  // requests since
}

// begin takes note that a member could not be asked, and reports whether that is news.
// Of one that is gone it is none, and of no other of those is anything kept.
func (o *outages) begin(member string, has func(member string) bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := o.of[member]
	switch {
	case !has(member):
		delete(o.of, member)
		return false
	case at == nil:
		for other := range o.of {
			if !has(other) {
				delete(o.of, other)
			}
		}
		if o.of == nil {
			o.of = make(map[string]*outage)
		}
		at = new(outage)
		o.of[member] = at
	}
	at.failed++
	if at.told || time.Since(at.toldAt) < quiet {
		return false
	}
	at.told, at.toldAt, at.failed = true, time.Now(), 1
	return true
}

// end takes note that a member has answered, and reports whether that is news, and how
// many requests did not get there.
func (o *outages) end(member string) (failed int, news bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := o.of[member]
	if at == nil || !at.told {
		return 0, false
	}
	at.told = false
	return at.failed, true
}

// unasked logs that a member could not be asked.
func (r *Router) unasked(ctx context.Context, id, member string, err error) {
	level := slog.LevelDebug
	if r.outages.begin(member, r.cfg.Cluster.Has) {
		level = slog.LevelWarn
	}
	r.log.LogAttrs(ctx, level, "could not ask another node",
		slog.String("member", member), slog.String("streamId", id), slog.Any("error", err))
}

// asked logs that a member can be asked again.
func (r *Router) asked(ctx context.Context, member string) {
	if failed, news := r.outages.end(member); news {
		r.log.LogAttrs(ctx, slog.LevelInfo, "another node can be asked again",
			slog.String("member", member), slog.Int("failed", failed))
	}
}

// repeats are of what is not worth a line each time. It is safe for concurrent use.
type repeats struct {
	mu     sync.Mutex // guards below
	toldAt time.Time
	since  int // not told
}

// next reports whether there should be a line, and how many there were not before it.
func (p *repeats) next() (since int, due bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.toldAt) < quiet {
		p.since++
		return 0, false
	}
	since, p.since, p.toldAt = p.since, 0, time.Now()
	return since, true
}

// RelayFailed is an actor.Relay's Failed. Of a node that can't be asked the log is told
// by who asked.
func (r *Router) RelayFailed(f actor.Failure) {
	level, others := slog.LevelDebug, 0
	if !errors.Is(f.Err, errNoHost) && !errors.Is(f.Err, errNoAnswer) && !errors.Is(f.Err, peer.ErrBroken) {
		since, due := r.relayed.next()
		if others = since; due {
			level = slog.LevelWarn
		}
	}
	r.log.LogAttrs(context.Background(), level, "relay failed", slog.String("phase", string(f.Phase)),
		slog.String("streamId", f.StreamID), slog.Any("error", f.Err), slog.Int("others", others))
}
