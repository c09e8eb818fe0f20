package plane

import "fmt"

// Accumulator is a reader's own copy of a stream's text, grown from the frames
// of its subscriptions. It takes nothing on trust: a frame that would show wrong
// text is refused, and what was shown stays.
//
// An open above the text is refused; one below it rewinds the text to where it
// starts, unless it is known to be of the epoch that the text is from, which has
// no other text. A chunk adds what lies beyond the end, be it a repeat of what is
// there. After a terminal frame, or one that was refused, nothing is taken until
// an open begins another subscription. Frames of unknown kinds are ignored.
//
// Adding at the end takes time in proportion to what is added. An Accumulator is
// for one goroutine; it is not copied once in use.
type Accumulator struct {
	streamID string
	epoch    int64 // of the text; 0 unknown
	over     bool
	given    given
}

// NewAccumulator returns a reader's copy that holds the stream's text from
// offset from on, as far as it is known already: the durable text and 0, or ""
// and where to begin. A subscription is then joined at [Accumulator.Pos].
func NewAccumulator(streamID string, from int64, text string) *Accumulator {
	a := &Accumulator{streamID: streamID}
	a.given.text.base = from
	a.given.add(Frame{From: from, Seq: from + Units(text), Text: text})
	return a
}

// Text returns the text so far, valid UTF-8. It makes no copy.
func (a *Accumulator) Text() string { return a.given.text.slice(a.given.text.base, a.given.text.end()) }

// Pos returns the offset at which the text ends, in UTF-16 code units.
func (a *Accumulator) Pos() int64 { return a.given.end() }

// Resume returns the resume point: what a reader that reconnects names.
func (a *Accumulator) Resume() string { return string(appendPoint(nil, a.Pos(), a.epoch)) }

// Apply takes the next frame. An error wraps the Violation.
func (a *Accumulator) Apply(f Frame) error {
	if f.Kind != KindOpen && a.over {
		return nil
	}
	err := a.apply(f)
	a.over = err != nil || f.Terminal()
	return err
}

func (a *Accumulator) apply(f Frame) error {
	switch f.Kind {
	case KindOpen:
		return a.open(f)
	case KindChunk, KindEnd:
		if f.Epoch != 0 && a.epoch != 0 && f.Epoch != a.epoch {
			return fmt.Errorf("%w from %d to %d", EpochChanged, a.epoch, f.Epoch)
		}
		a.epoch = max(a.epoch, f.Epoch)
	}
	switch {
	case f.Kind == KindChunk:
		return a.chunk(f)
	case f.Kind == KindEnd && !f.ends():
		return EndMalformed
	case f.Kind == KindEnd && f.Seq > a.Pos():
		return fmt.Errorf("%w: at %d, have %d", EndOutruns, f.Seq, a.Pos())
	}
	return nil
}

func (a *Accumulator) open(f Frame) error {
	pos := a.Pos()
	switch {
	case !f.opens(a.streamID):
		return OpenMalformed
	case f.Epoch != 0 && f.Epoch < a.epoch:
		return fmt.Errorf("%w from %d back to %d", EpochChanged, a.epoch, f.Epoch)
	case f.From > pos:
		return fmt.Errorf("%w: at %d, have %d", OpenBeyond, f.From, pos)
	}
	same := f.Epoch != 0 && f.Epoch == a.epoch && f.Seq >= pos
	if f.From < pos && !same {
		a.given.rewind(f.From)
	}
	a.epoch = max(a.epoch, f.Epoch)
	return nil
}

func (a *Accumulator) chunk(f Frame) error {
	switch pos := a.Pos(); {
	case !f.spans():
		return fmt.Errorf("%w: %d to %d", ChunkSpan, f.From, f.Seq)
	case f.From > pos:
		return fmt.Errorf("%w: from %d, have %d", ChunkGap, f.From, pos)
	case !a.given.agrees(f):
		return fmt.Errorf("%w: %d to %d, have %d", ChunkDiffers, f.From, f.Seq, pos)
	case f.Seq > pos:
		a.given.add(f)
	}
	return nil
}
