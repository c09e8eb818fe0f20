package feed

import (
	"cmp"
	"fmt"
	"sync/atomic"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

// ReceiverConfig says what a Receiver does with what it hears.
type ReceiverConfig struct {
	Changed func(Change) // another node's change, or one by plain SQL; required
	Missed  func()       // changes may have been missed; required

	// Self is the producer of this node's own messages, which are ignored; "" is
	// none.
	Self string

	// Beat is that of the publishers; 0 means DefaultBeat.
	Beat time.Duration
}

// Receiver takes what a Session hears. Its methods but Stats are for one
// goroutine, as Listen calls them.
type Receiver struct {
	cfg  ReceiverConfig
	gaps gaps

	received, messages, malformed, missed, outOfOrder, connects atomic.Int64
}

// ReceiverStats count what came since the receiver was made.
type ReceiverStats struct {
	Received   int64 // changes of others
	Messages   int64 // in which they came, beats too
	Malformed  int64 // messages that were none of the feed's
	Gaps       int64 // times that numbers were missing, or that nothing was heard
	OutOfOrder int64 // messages that came again, or after a newer one
	Connects   int64 // times that the listening began
}

// NewReceiver returns a receiver that has heard nothing.
func NewReceiver(cfg ReceiverConfig) (*Receiver, error) {
	if cfg.Changed == nil || cfg.Missed == nil || cfg.Beat < 0 {
		return nil, fmt.Errorf("%w: a receiver needs Changed, Missed, and a Beat of 0 or more", plane.ErrConfig)
	}
	r := &Receiver{cfg: cfg}
	r.gaps.settle = 2 * cmp.Or(cfg.Beat, DefaultBeat)
	r.gaps.forget()
	return r, nil
}

// Connected says that from now on everything is heard. What was sent before may
// have been missed.
func (r *Receiver) Connected() {
	if r.connects.Add(1) > 1 {
		r.missed.Add(1)
	}
	r.gaps.forget()
	r.cfg.Missed()
}

// Message takes a message.
func (r *Receiver) Message(text string) {
	e, err := Parse(text)
	if err != nil { // somebody else's
		r.malformed.Add(1)
		return
	}
	if e.Producer != "" && e.Producer == r.cfg.Self {
		return
	}
	r.messages.Add(1)
	r.received.Add(int64(len(e.Changes)))
	for _, c := range e.Changes {
		r.cfg.Changed(c)
	}
	switch r.gaps.take(e.Producer, e.Seq, len(e.Changes) == 0) {
	case afterGap:
		r.missed.Add(1)
		r.cfg.Missed()
	case late:
		r.outOfOrder.Add(1)
	}
}

// Stats answers the counts so far. It is safe for concurrent use.
func (r *Receiver) Stats() ReceiverStats {
	return ReceiverStats{
		Received: r.received.Load(), Messages: r.messages.Load(), Malformed: r.malformed.Load(),
		Gaps: r.missed.Load(), OutOfOrder: r.outOfOrder.Load(), Connects: r.connects.Load(),
	}
}
