package plane

import (
	"context"
	"io"
	"iter"
)

// MaxChunk bounds the text of one chunk frame, in bytes. A reader that takes
// nothing holds one frame at most, and JSON may make six bytes of one.
const MaxChunk = 16 << 10

// Cursor is one reader of a stream, or of a mirror of it: an offset into the shared text, the newest
// durable mark it was told, and nothing that grows. However far it falls
// behind, what it gets next is the text from its offset to the tip, in chunks
// of at most MaxChunk, then the newest durable mark, then the terminal frame. A
// Cursor is for one goroutine.
type Cursor struct {
	s      *Live
	pos    int64
	told   int64  // newest durable mark that was sent
	mark   int64  // durable mark at the join, to be sent after its text
	first  *Frame // open, or what a reader is told instead; nil once told
	closed bool
}

// Join begins to read at offset from, limited to 0..produced and moved down to
// the start of a character. Snapshot, replay and registration are one step: no
// delta can fall between. Joining never fails; what can't be served is a frame.
func (s *Live) Join(from int64) *Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.join(from)
}

// join is Join with s.mu held.
func (s *Live) join(from int64) *Cursor {
	c := &Cursor{s: s}
	from = max(0, min(from, s.text.end()))
	if s.end != nil && s.end.Kind != KindEnd {
		c.first = s.end
		return c
	}
	if from < s.floor {
		stale := s.stale()
		c.first = &stale
		return c
	}
	c.pos = s.text.floor(from)
	c.first = &Frame{
		Kind: KindOpen, StreamID: s.id, From: c.pos, Seq: max(s.text.end(), s.known), DurableSeq: s.durable,
		Ended: s.end != nil || s.sealed, Epoch: s.epoch,
	}
	c.told = s.durable
	if s.durable > c.pos {
		c.told = 0
		if s.durable <= s.text.end() {
			c.mark = s.durable
		}
	}
	s.readers++
	return c
}

// stale sends a reader to the durable plane. s.mu is held.
func (s *Live) stale() Frame {
	return Frame{Kind: KindStale, FloorSeq: s.floor, DurableSeq: s.durable}
}

// Poll returns the next frame, if there is one now. If it leaves no other, or
// there was none, more is closed when there may be one. more is nil, too, after
// the terminal frame.
func (c *Cursor) Poll() (f Frame, ok bool, more <-chan struct{}) {
	if c.closed {
		return Frame{}, false, nil
	}
	if c.first != nil {
		f, c.first = *c.first, nil
		c.closed = f.Terminal()
		return f, true, nil
	}
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleRetired()
	end := s.text.end()
	lagging := s.maxLag > 0 && end-c.pos > s.maxLag
	switch {
	case s.end != nil && s.end.Kind != KindEnd && !s.lasting:
		return c.leave(*s.end), true, nil
	case c.pos < s.floor || lagging:
		return c.leave(s.stale()), true, nil
	case c.pos < end:
		f = c.chunk(end)
		if c.pos == end && max(s.mark, c.mark) <= c.told && s.end == nil {
			more = s.wait()
		}
		return f, true, more
	case max(s.mark, c.mark) > c.told:
		c.told = max(s.mark, c.mark)
		return s.share(Frame{Kind: KindDurable, Seq: c.told}), true, nil
	case s.end != nil:
		return c.leave(*s.end), true, nil
	}
	return Frame{}, false, s.wait()
}

// Stream returns what c reads; nil if that is not hosted. Cursors of one stream,
// or of one mirror, have the same.
func (c *Cursor) Stream() *Live { return c.s }

// wait returns the channel that is closed at the next change. s.mu is held.
func (s *Live) wait() <-chan struct{} {
	if s.tip == nil {
		s.tip = make(chan struct{})
	}
	return s.tip
}

// chunk returns the text at the cursor, as much as a frame takes. s.mu is held.
func (c *Cursor) chunk(end int64) Frame {
	s := c.s
	at, from := s.text.locate(c.pos) // of a mirror, pos may turn out to lie inside a pair
	to, text := end, view(s.text.buf[at:])
	if len(text) > MaxChunk {
		text = text[:Cut(text, MaxChunk)]
		to = from + validUnits(text)
	}
	c.pos = to
	f := Frame{Kind: KindChunk, From: from, Seq: to, Text: text, Epoch: s.epoch}
	if to-from <= sharedUnits {
		f = s.share(f)
	}
	return f
}

// leave makes f the last frame. s.mu is held.
func (c *Cursor) leave(f Frame) Frame {
	c.closed = true
	c.s.left()
	return f
}

// left takes note of a reader that is gone. s.mu is held.
func (s *Live) left() {
	if s.readers--; s.readers == 0 {
		s.recent = nil
		s.settleRetired()
		if s.deserted != nil {
			s.deserted()
		}
	}
}

// Next returns the next frame, waiting for it until ctx is done. After the
// terminal frame, and after Close, it answers io.EOF.
func (c *Cursor) Next(ctx context.Context) (Frame, error) {
	for {
		f, ok, more := c.Poll()
		switch {
		case ok:
			return f, nil
		case more == nil:
			return Frame{}, io.EOF
		}
		select {
		case <-more:
		case <-ctx.Done():
			return Frame{}, ctx.Err()
		}
	}
}

// Frames returns the frames from here to the terminal one. It ends with an
// error only if ctx does, and closes the cursor.
func (c *Cursor) Frames(ctx context.Context) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		defer c.Close()
		for {
			f, err := c.Next(ctx)
			if err == io.EOF || !yield(f, err) || err != nil {
				return
			}
		}
	}
}

// Close ends the reading. It may be called twice.
func (c *Cursor) Close() {
	if c.closed {
		return
	}
	c.closed = true
	if c.first != nil && c.first.Terminal() {
		return
	}
	c.s.mu.Lock()
	c.s.left()
	c.s.mu.Unlock()
}

// Cut returns the largest index of s, at most n, at which a character begins.
func Cut(s string, n int) int {
	if n >= len(s) {
		return len(s)
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return n
}

// Absent returns a cursor whose one frame says that the stream is not hosted.
func Absent() *Cursor { return &Cursor{first: &Frame{Kind: KindAbsent}} }
