package actor_test

import (
	"context"
	"slices"
	"sync"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
)

// subscriber is one reader of a script.
type subscriber struct {
	script *script
	cursor *plane.Cursor
	cancel context.CancelFunc
	gone   chan struct{} // closed when nobody reads any longer; nil if manual

	mu     sync.Mutex
	frames []frame
	done   bool
}

func (s *script) subscribe(o op) {
	user := o.User
	if user == "" {
		user = "u1"
	}
	system := s.node(o.Plane).system
	ctx, leave := context.WithCancel(s.ctx)
	s.leaves[o.As] = leave
	s.call(o.As, func() (*int64, error) {
		cursor, err := system.Subscribe(ctx, actor.Access{Principal: user, StreamID: o.Stream, From: int64(o.From)})
		if ctx.Err() != nil && err != nil { // it left before it was answered
			cursor, err = plane.Absent(), nil
			cursor.Close()
		}
		if err != nil {
			return nil, err
		}
		sub := &subscriber{script: s, cursor: cursor, done: ctx.Err() != nil}
		s.mu.Lock()
		s.subs[o.As] = sub
		s.mu.Unlock()
		if o.Reader != "manual" {
			sub.follow()
		}
		return nil, nil
	})
}

// follow reads until the terminal frame or the close.
func (r *subscriber) follow() {
	ctx, cancel := context.WithCancel(r.script.ctx)
	r.cancel, r.gone = cancel, make(chan struct{})
	r.script.tasks.Go(func() {
		defer close(r.gone)
		for f, err := range r.cursor.Frames(ctx) {
			if err != nil {
				return
			}
			r.add(f)
		}
	})
}

func (r *subscriber) add(f plane.Frame) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frames = append(r.frames, frameOf(f))
	r.done = r.done || f.Terminal()
}

// read takes up to n frames that are there, or all of them if n is below 0.
func (r *subscriber) read(n int) {
	for ; n != 0; n-- {
		f, ok, _ := r.cursor.Poll()
		if !ok {
			return
		}
		r.add(f)
	}
}

func (r *subscriber) close() {
	if r.gone == nil {
		r.cursor.Close()
	} else {
		r.cancel()
		<-r.gone
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = true
}

// seen returns what all readers got.
func (s *script) seen() map[string]subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[string]subscription{}
	for name, sub := range s.subs {
		sub.mu.Lock()
		seen[name] = subscription{Frames: slices.Clone(sub.frames), Done: sub.done}
		sub.mu.Unlock()
	}
	return seen
}
