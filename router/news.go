package router

import (
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/feed"
)

// Announce tells of a change that was made on this node: who follows the
// stream's durable text here looks at it, and Config.Publish tells the other
// nodes. It waits for nothing.
func (r *Router) Announce(c feed.Change) {
	r.watches.wake(c.ID)
	if r.cfg.Publish != nil {
		r.cfg.Publish(c)
	}
}

// Heard takes a change that was made elsewhere. A stream that was asked to stop
// and is live here learns of it at once; its row says the same at the next
// checkpoint. One that was opened is attached at once for who follows it here.
func (r *Router) Heard(c feed.Change) {
	if c.Status == plane.StatusStreaming { // opened there
		r.cfg.Actors.Expect(c.ID)
	}
	r.watches.wake(c.ID)
	if !c.Cancel {
		return
	}
	// What is said of another epoch is not of this stream: it is late.
	if s, ok := r.cfg.Actors.Stream(c.ID); ok && (c.Epoch == 0 || c.Epoch == s.Epoch()) {
		s.Cancel()
	}
}

// Missed says that changes may have been made elsewhere unheard: all who follow
// durable text look at it within a second.
func (r *Router) Missed() { r.watches.wakeAll() }

// Listening says whether changes made elsewhere are heard. It decides how often
// followers look by themselves.
func (r *Router) Listening(heard bool) {
	if was := r.deaf.Swap(!heard); !was && !heard {
		r.watches.wakeAll() // to look more often from now on
	}
}
