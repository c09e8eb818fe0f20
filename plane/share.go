package plane

import "sync"

// shared is the form in which one frame is sent, made once for all readers that
// are sent it.
type shared struct {
	once sync.Once
	wire []byte
}

// Encoded returns what encode appends for f. For a frame that a stream shares
// among its readers that is done once; each call for such a frame must name the
// same encoding, and nobody may change the bytes.
func (f Frame) Encoded(encode func(dst []byte, f Frame) []byte) []byte {
	if f.shared == nil {
		return encode(nil, f)
	}
	f.shared.once.Do(func() { f.shared.wire = encode(make([]byte, 0, len(f.Text)+wireOverhead), f) })
	return f.shared.wire
}

// wireOverhead is what the usual frame is longer than its text on the wire.
const wireOverhead = 128

const (
	sharedFrames = 4        // newest frames kept for sharing
	sharedUnits  = 16 << 10 // a longer chunk is encoded by each reader for itself
)

// recent holds the newest frames that readers took, so that those who are at
// the same place take the same. Readers at the tip need one; a few more serve
// those that a busy machine let fall one or two deltas behind.
type recent struct {
	frames [sharedFrames]Frame
	next   int
}

// share returns f as all readers at the same place are sent it. s.mu is held.
func (s *Live) share(f Frame) Frame {
	if s.recent == nil {
		if s.end != nil {
			return f
		}
		s.recent = new(recent)
	}
	return s.recent.share(f)
}

// share returns f, or the frame just like it that another reader took before.
func (r *recent) share(f Frame) Frame {
	for i := range r.frames {
		k := &r.frames[i]
		if k.Seq == f.Seq && k.From == f.From && k.Kind == f.Kind {
			return *k
		}
	}
	f.shared = new(shared)
	r.frames[r.next] = f
	r.next = (r.next + 1) % sharedFrames
	return f
}
