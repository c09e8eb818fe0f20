package actor

import (
	"context"
	"fmt"
	"log/slog"

	"rillkeep.dev/rillkeep/plane"
)

// Relay carries streams between nodes. It is consulted after authorization, and
// only for what is not hosted here. One that addresses the owner has Attach; one
// that is a broadcast or a log has both. At least one is set.
type Relay struct {
	// Attach returns the frames of a stream that another node hosts, from an
	// offset on, and the stream's epoch, 0 if it is not known. from was given out
	// in the epoch that is named; 0 is not known, either. The owner limits from to
	// what it has produced, and to what no later epoch began below, and says in its
	// open where it starts. A nil source is
	// that nobody is known to host the stream.
	//
	// ctx covers the source, too: it is done when the attach took too long, or
	// when the source is not needed any more.
	Attach func(ctx context.Context, streamID string, from, epoch int64) (source Source, atEpoch int64, err error)

	// Publish is given each chunk, durable and end frame of the streams that are
	// hosted here, in order and one at a time for each stream. It never holds a
	// producer up: what it is late for comes merged, and what it fails for is not
	// repeated. ctx bounds the call.
	Publish func(ctx context.Context, streamID string, f plane.Frame) error

	// Failed is told what went wrong; nil logs it. Its panics are caught.
	Failed func(Failure)
}

// Source is where the frames of an attached stream come from. It is for one
// goroutine.
type Source interface {
	// Next returns the next frame, waiting for it until ctx is done; io.EOF when
	// there is none. An error that wraps a plane.Violation is final, after any other
	// the stream is attached again. One that is os.ErrDeadlineExceeded says that the
	// other side fell silent: the source did not live until then.
	Next(ctx context.Context) (plane.Frame, error)

	// Close gives the source back. It does not wait for the other side.
	Close() error
}

// Phase is what a relay was at when it failed.
type Phase string

// The phases of a relay.
const (
	PhasePublish Phase = "publish" // a frame of ours was not taken
	PhaseAttach  Phase = "attach"  // no source was to be had
	PhaseFrames  Phase = "frames"  // a source broke, or the rules
)

// Failure is what went wrong with a relay. Readers have been served as well as
// could be.
type Failure struct {
	Phase    Phase
	StreamID string
	Err      error
}

// ErrAttachTimeout says that no frame came within Config.AttachWindow. It is a
// context.DeadlineExceeded: what a relay learns of its peers by that, it learns by
// the context that this is the cause of, too.
var ErrAttachTimeout = fmt.Errorf("attach took too long: %w", context.DeadlineExceeded)

func (r *Relay) validate() error {
	if r != nil && r.Attach == nil && r.Publish == nil {
		return fmt.Errorf("%w: a relay needs Attach or Publish", plane.ErrConfig)
	}
	return nil
}

// failed counts a failure and tells of it.
func (y *System) failed(phase Phase, id string, err error) {
	switch phase {
	case PhasePublish:
		y.counts.publishFailed.Add(1)
	case PhaseAttach:
		y.counts.attachFailed.Add(1)
	case PhaseFrames:
		y.counts.framesFailed.Add(1)
	}
	hook := y.cfg.Relay.Failed
	if hook == nil {
		y.log.LogAttrs(context.Background(), slog.LevelWarn, "relay failed",
			slog.String("phase", string(phase)), slog.String("streamId", id), slog.Any("error", err))
		return
	}
	if p := caught(func() error { hook(Failure{phase, id, err}); return nil }); p != nil {
		y.log.LogAttrs(context.Background(), slog.LevelError, "hook panicked",
			slog.String("streamId", id), slog.String("hook", "Failed"), slog.Any("error", p))
	}
}

// caught calls f, and makes an error of its panic.
func caught(f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case error:
			err = fmt.Errorf("panic: %w", p)
		default:
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}

// publish gives a stream's frames to the relay, if it takes any. The publisher is
// a reader of its own: it holds nothing, and nobody waits for it (I).
func (y *System) publish(s *plane.Stream) {
	if y.cfg.Relay == nil || y.cfg.Relay.Publish == nil {
		return
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.closing.Err() == nil {
		c := s.Join(s.State().Seq)
		y.tasks.Go(func() { y.publishAll(s, c) })
	}
}

func (y *System) publishAll(s *plane.Stream, c *plane.Cursor) {
	defer func() { c.Close() }()
	for {
		f, err := c.Next(y.closing)
		switch {
		case err != nil:
			return
		case f.Kind == plane.KindStale && !s.State().Over: // those who are told of the text by now fetch the rest
			y.failed(PhasePublish, s.ID(), fmt.Errorf("fell behind: text is kept from %d on", f.FloorSeq))
			c = s.Join(s.State().Seq)
		case f.Kind == plane.KindChunk, f.Kind == plane.KindDurable, f.Kind == plane.KindEnd:
			if err := y.publishOne(s.ID(), f); err != nil {
				y.failed(PhasePublish, s.ID(), err)
			}
		}
	}
}

func (y *System) publishOne(id string, f plane.Frame) error {
	ctx, cancel := context.WithTimeout(y.closing, y.cfg.AttachWindow)
	defer cancel()
	return caught(func() error { return y.cfg.Relay.Publish(ctx, id, f) })
}
