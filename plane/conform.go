package plane

import (
	"errors"
	"fmt"
)

// tailUnits bounds the delivered text that a Conform holds to compare repeats
// with: the last 32 Ki units at least, 64 Ki at most.
const tailUnits = 64 << 10

// Conform makes a legal subscription of whatever frames another process sends:
// each goes through Step before a reader sees it, and the source's end through
// End. What breaks the rules becomes one legal stale, after which nothing comes
// out any more; repeats are absorbed.
//
// A source may be replaced by another in mid-stream, which is joined at
// [Conform.Pos]: the repeats that this brings are absorbed too. Frames of
// another epoch are not, since they may hold other text: for them, begin another
// Conform.
//
// A Conform does no I/O and is for one goroutine.
type Conform struct {
	streamID string
	pos      int64 // offset at which the delivered text ends
	durable  int64 // the newest durable length that the reader was told
	epoch    int64 // of the frames so far; 0 unknown
	opened   bool
	behind   bool // the source's open is below what was asked for, and nothing came after it
	done     bool
	tail     given
}

// NewConform returns the pass for a reader that joined a stream at offset from.
func NewConform(streamID string, from int64) *Conform {
	from = max(0, min(from, MaxOffset))
	return &Conform{streamID: streamID, pos: from, tail: given{text: text{base: from}}}
}

// Pos returns the offset at which the delivered text ends, in UTF-16 code units.
func (c *Conform) Pos() int64 { return c.pos }

// Done reports whether the terminal frame is out.
func (c *Conform) Done() bool { return c.done }

// Step takes the source's next frame and appends to out, which it returns, what
// the reader is to be sent for it: none, one or two frames. An error says that f
// broke the rules, and wraps the Violation; what was appended then is the stale
// that the reader gets instead.
func (c *Conform) Step(out []Frame, f Frame) ([]Frame, error) {
	if c.done {
		return out, nil
	}
	switch f.Kind {
	case KindStale:
		c.done = true
		if f.malformed || f.FloorSeq < 0 || f.DurableSeq < 0 {
			f = c.stale()
		}
		return append(out, f), nil
	case KindAbsent:
		c.done = true
		return append(out, f), nil
	}
	if f.Epoch != 0 && c.epoch != 0 && f.Epoch != c.epoch {
		return c.refuse(out, fmt.Errorf("%w from %d to %d", EpochChanged, c.epoch, f.Epoch))
	}
	c.epoch = max(c.epoch, f.Epoch)
	switch f.Kind {
	case KindOpen:
		return c.open(out, f)
	case KindChunk:
		return c.chunk(out, f)
	case KindDurable:
		if f.malformed || f.Seq < c.durable || f.Seq > c.pos {
			return out, nil
		}
		c.durable = f.Seq
		c.behind = false
		return append(c.opening(out), f), nil
	case KindEnd:
		return c.end(out, f)
	}
	if f.optional {
		return out, nil
	}
	return c.refuse(out, fmt.Errorf("%w: type %.32q", BrokenFrame, string(f.Kind)))
}

func (c *Conform) open(out []Frame, f Frame) ([]Frame, error) {
	switch {
	case c.opened:
		return out, nil
	case !f.opens(c.streamID):
		return c.refuse(out, OpenMalformed)
	case f.From > c.pos:
		return c.refuse(out, fmt.Errorf("%w: at %d, asked for %d", OpenBeyond, f.From, c.pos))
	}
	c.opened = true
	c.behind = f.From < c.pos
	c.pos = f.From
	c.durable = f.DurableSeq
	c.tail = given{text: text{base: f.From}}
	return append(out, f), nil
}

func (c *Conform) chunk(out []Frame, f Frame) ([]Frame, error) {
	switch {
	case !f.spans():
		return c.refuse(out, fmt.Errorf("%w: %d to %d", ChunkSpan, f.From, f.Seq))
	case f.From > c.pos:
		return c.refuse(out, fmt.Errorf("%w: from %d, delivered %d", ChunkGap, f.From, c.pos))
	case !c.tail.agrees(f):
		return c.refuse(out, fmt.Errorf("%w: %d to %d, delivered %d", ChunkDiffers, f.From, f.Seq, c.pos))
	case f.Seq <= c.pos:
		return out, nil
	}
	out = c.opening(out)
	c.tail.add(f)
	c.pos = f.Seq
	c.behind = false
	c.tail.trim(tailUnits)
	return append(out, f), nil
}

func (c *Conform) end(out []Frame, f Frame) ([]Frame, error) {
	switch {
	case !f.ends():
		return c.refuse(out, EndMalformed)
	case f.Seq > c.pos:
		return c.refuse(out, fmt.Errorf("%w: at %d, delivered %d", EndOutruns, f.Seq, c.pos))
	}
	c.done = true
	return append(c.opening(out), f), nil
}

// End takes the end of the source, with its error if it failed, and appends to
// out the stale that the reader is sent if the source gave no terminal frame.
// The error it returns then wraps a Violation, and err: that of err, as of
// [ParseFrame], where it has one, or else SourceFailed.
func (c *Conform) End(out []Frame, err error) ([]Frame, error) {
	if c.done {
		return out, nil
	}
	if err == nil {
		return c.refuse(out, fmt.Errorf("%w: delivered %d", NoTerminal, c.pos))
	}
	if _, ok := errors.AsType[Violation](err); !ok {
		err = fmt.Errorf("%w: %w", SourceFailed, err)
	}
	return c.refuse(out, err)
}

// opening appends an open made up at the join offset, if there was none.
func (c *Conform) opening(out []Frame) []Frame {
	if c.opened {
		return out
	}
	c.opened = true
	return append(out, Frame{
		Kind: KindOpen, StreamID: c.streamID, From: c.pos, Seq: c.pos, DurableSeq: c.pos, Epoch: c.epoch,
	})
}

// refuse ends the subscription with a stale.
func (c *Conform) refuse(out []Frame, why error) ([]Frame, error) {
	c.done = true
	return append(out, c.stale()), why
}

// stale says how far the reader is, which may be past what the store holds, and
// what the source last said is durable. A source that has less than the reader
// asked for, and gave nothing, is not believed in that.
func (c *Conform) stale() Frame {
	f := Frame{Kind: KindStale, FloorSeq: c.pos, DurableSeq: c.durable}
	if c.behind {
		f.DurableSeq = 0
	}
	return f
}
