package actor

import "sync/atomic"

// Stats are what a system's relay has done and does. What is a number of times
// counts from the start.
type Stats struct {
	Attached int // streams of other nodes that are attached now
	Readers  int // readers of those

	Attaches      int64 // attempts to attach
	Reattached    int64 // sources that were replaced without a reader's notice
	AttachFailed  int64 // failures of PhaseAttach
	FramesFailed  int64 // failures of PhaseFrames
	PublishFailed int64 // failures of PhasePublish
}

type counts struct {
	attaches, reattached, attachFailed, framesFailed, publishFailed atomic.Int64
}

// Stats returns what the relay has done and does.
func (y *System) Stats() Stats {
	s := Stats{
		Attaches:      y.counts.attaches.Load(),
		Reattached:    y.counts.reattached.Load(),
		AttachFailed:  y.counts.attachFailed.Load(),
		FramesFailed:  y.counts.framesFailed.Load(),
		PublishFailed: y.counts.publishFailed.Load(),
	}
	for _, m := range y.mirrors() {
		s.Attached++
		s.Readers += m.Readers()
	}
	return s
}
