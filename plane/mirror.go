package plane

import "unicode/utf8"

// DefaultMirrorRetain is how much text a mirror keeps below its tip, in UTF-16
// code units, for those who come late or are behind.
const DefaultMirrorRetain = 256 << 10

// MirrorConfig says how a mirror works.
type MirrorConfig struct {
	Retain int64   // units kept below the tip; 0 means DefaultMirrorRetain
	MaxLag int64   // as in Policy
	Budget *Budget // counts the text; nil is no bound

	// Deserted is called when the last reader has left, with a lock of the mirror's
	// held: it calls nothing of the mirror, and waits for nothing.
	Deserted func()
}

// Mirror is a stream as a node knows it that does not own it: the text from the
// offset at which it was attached, as far as it is kept, and the readers here.
// It has no producer and no store, and is never sealed by itself: what happens
// to it is what its source says.
//
// One goroutine feeds it; readers may join and be read at the same time.
type Mirror struct {
	Live
	retain  int64
	conform *Conform // of who feeds
	tail    int64    // size of what conform holds, as the budget counts it; of who feeds
	out     []Frame  // room for what a step gives

	// Guarded by mu.
	in   intake // holds half of a pair, which no stream of ours sends
	last int64  // where the newest chunk began: readers at the tip may be there still
}

// NewMirror returns a mirror of a stream that is attached at offset from. epoch is
// what the source said of the stream's; 0 is not known. It has to be retired.
func NewMirror(cfg MirrorConfig, streamID string, from, epoch int64) *Mirror {
	if cfg.Retain == 0 {
		cfg.Retain = DefaultMirrorRetain
	}
	m := &Mirror{retain: cfg.Retain, conform: NewConform(streamID, from)}
	m.Live = Live{
		id: streamID, epoch: epoch, budget: cfg.Budget, maxLag: cfg.MaxLag, lasting: true, deserted: cfg.Deserted,
	}
	m.rebase(m.conform.Pos())
	return m
}

// Pos returns the offset at which the text ends. It is for who feeds.
func (m *Mirror) Pos() int64 { return m.conform.Pos() }

// Durable returns the newest durable length that the source said. It is for who
// feeds.
func (m *Mirror) Durable() int64 { return m.conform.durable }

// Begun reports whether there is something to join: an open came, or an end. It
// is for who feeds.
func (m *Mirror) Begun() bool { return m.conform.opened || m.conform.done }

// Done reports whether the terminal frame came. It is for who feeds.
func (m *Mirror) Done() bool { return m.conform.Done() }

// Sealed reports whether the stream has ended, and the mirror as it did.
func (m *Mirror) Sealed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.end != nil && m.end.Kind == KindEnd
}

// Lost reports whether the mirror has ended, and the stream need not have.
func (m *Mirror) Lost() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.end != nil && m.end.Kind != KindEnd
}

// Readers returns how many have joined and not left.
func (m *Mirror) Readers() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.readers
}

// Behind returns, for a reader that has more of the text than the mirror by now, what
// is closed when the mirror has changed; nil if it is not behind, or gets no further.
func (m *Mirror) Behind(from int64) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.end != nil || from <= m.text.end() {
		return nil
	}
	return m.wait()
}

// Feed takes the source's next frame, by the rules of [Conform]. With an error it
// has ended with stale. Of the open of a source that replaces another, what it says
// is durable counts: the mark for it came while there was no source.
func (m *Mirror) Feed(f Frame) error {
	if c := m.conform; f.Kind == KindOpen && c.opened && f.opens(c.streamID) && f.DurableSeq > c.durable {
		f = Frame{Kind: KindDurable, Seq: min(f.DurableSeq, c.pos), Epoch: f.Epoch}
	}
	out, err := m.conform.Step(m.out[:0], f)
	m.apply(out)
	return err
}

// Break ends the mirror with stale, because its source is lost: err says how, nil
// that it just ended. It returns what is to be said of that.
func (m *Mirror) Break(err error) error {
	out, err := m.conform.End(m.out[:0], err)
	m.apply(out)
	return err
}

// Renew says that the source goes on in a later epoch, which began no sooner than
// where the text ends.
func (m *Mirror) Renew(epoch int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch = epoch
	m.conform.epoch = epoch
	m.recent = nil
}

// Trim gives up, without a word to who reads, what a mirror gives up while its
// Budget is exceeded.
func (m *Mirror) Trim() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.budget != nil {
		m.recent = nil
		m.trimTo(m.last - m.budget.keep)
	}
}

func (m *Mirror) apply(frames []Frame) {
	m.mu.Lock()
	defer m.unlock()
	for _, f := range frames {
		switch f.Kind {
		case KindOpen:
			m.rebase(f.From)
			m.known, m.durable, m.sealed = f.Seq, f.DurableSeq, f.Ended
		case KindChunk:
			m.extend(f)
		case KindDurable:
			m.advance(f.Seq)
		default:
			m.finish(f)
		}
	}
	clear(frames)
	m.out = frames[:0]
	if m.conform.done {
		m.conform.tail = given{}
	}
	if tail := m.conform.tail.text.size(); tail != m.tail {
		m.budget.add(tail - m.tail)
		m.tail = tail
	}
}

// rebase makes the text begin at an offset, empty. mu is held.
func (m *Mirror) rebase(at int64) {
	m.text, m.floor, m.last, m.in = text{base: at}, at, at, intake{}
}

// extend adds what a chunk holds beyond the text. mu is held.
func (m *Mirror) extend(f Frame) {
	if m.text.units == 0 && m.in.held == "" && f.From < m.text.base {
		m.rebase(f.From) // what the source gives beyond what was asked for is as good
	}
	s := dropUnits(f.Text, f.Seq-f.From, m.text.end()+m.in.units()-f.From)
	if m.in.held != "" || !utf8.ValidString(s) {
		s = m.in.accept(decodeHalves(encodeHalves(s)))
	}
	m.last = m.text.end()
	m.add(s)
	m.trimTo(min(m.last, m.text.end()-m.retain))
	if m.budget.Exceeded() {
		m.trimTo(m.last - m.budget.keep)
	}
}

// add adds valid text. mu is held.
func (m *Mirror) add(s string) {
	if s == "" {
		return
	}
	m.text.append(s, validUnits(s))
	m.weigh()
	m.changed = true
	if m.durable > m.mark && m.durable <= m.text.end() { // the open's, which was ahead of its text
		m.mark = m.durable
	}
}

// advance takes a durable mark, which does not pass the text. mu is held.
func (m *Mirror) advance(seq int64) {
	seq = min(seq, m.text.end())
	if seq <= m.durable { // made up with the open, it may be ahead
		return
	}
	m.durable, m.mark = seq, seq
	m.changed = true
}

// finish takes the terminal frame. mu is held.
func (m *Mirror) finish(f Frame) {
	m.add(m.in.flush())
	f.Epoch = m.epoch
	m.terminate(f)
}
