package plane_test

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"pgregory.net/rapid"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
)

// reader is one subscription: polled when the machine says so, or followed by a
// goroutine that always takes what there is.
type reader struct {
	c     *plane.Cursor
	first plane.Frame     // what it must be told first
	more  <-chan struct{} // what it waits on: it was told that there is nothing now

	from   int64 // where it was told that its text begins
	pos    int64 // where its text ends
	told   int64 // newest durable frame
	opened bool
	end    *plane.Frame

	followed bool
	stop     context.CancelFunc
	mu       sync.Mutex // guards below
	came     []plane.Frame
}

// join subscribes somewhere, near the places where it matters most.
func (m *machine) join(t *rapid.T) {
	if len(m.readers) == 5 {
		t.Skip("enough readers")
	}
	stored, end := m.state.Durable, int64(len(m.produced))
	from := rapid.OneOf(
		rapid.SampledFrom([]int64{0, stored, end, end + 7, -5}),
		rapid.Int64Range(max(0, end-20), end),
		rapid.Int64Range(0, end),
	).Draw(t, "from")
	r := &reader{first: m.firstFrame(from), followed: rapid.Bool().Draw(t, "followed")}
	if _, hosted := m.sys.Stream("s"); hosted || rapid.Bool().Draw(t, "lookup") {
		c, err := m.sys.Subscribe(t.Context(), actor.Access{StreamID: "s", From: from})
		if err != nil {
			t.Fatal(err)
		}
		if r.c = c; !hosted {
			r.first = plane.Frame{Kind: plane.KindAbsent}
		}
	} else { // who looked the stream up before it went
		r.c = m.s.Join(from)
	}
	m.readers = append(m.readers, r)
	if r.followed {
		ctx, cancel := context.WithCancel(context.Background())
		r.stop = cancel
		m.calls.Go(func() { r.follow(ctx) })
	}
}

// firstFrame is what a reader who joins at from must be told.
func (m *machine) firstFrame(from int64) plane.Frame {
	st := m.s.State()
	floor := m.floor()
	from = max(0, min(from, st.Seq))
	if u := m.produced; from > 0 && from < st.Seq && u[from]>>10 == 0xDC00>>10 {
		from--
	}
	switch {
	case from < floor || m.fenced():
		return plane.Frame{Kind: plane.KindStale, FloorSeq: floor, DurableSeq: st.Durable}
	}
	return plane.Frame{
		Kind: plane.KindOpen, StreamID: "s", From: from, Seq: st.Seq, DurableSeq: st.Durable,
		Ended: st.Status != plane.StatusStreaming, Epoch: 1,
	}
}

func (r *reader) follow(ctx context.Context) {
	for f, err := range r.c.Frames(ctx) {
		if err != nil {
			return // it left
		}
		r.mu.Lock()
		r.came = append(r.came, f)
		endless := len(r.came) > 100_000
		r.mu.Unlock()
		if endless {
			return // it is told the same for ever
		}
	}
}

func (r *reader) leave() {
	if r.followed {
		r.stop()
	} else {
		r.c.Close()
	}
}

// read takes some of what is ready.
func (m *machine) read(t *rapid.T) {
	if r := m.draw(t); !r.followed {
		m.poll(t, r, rapid.IntRange(1, 40).Draw(t, "frames"))
	}
}

func (m *machine) draw(t *rapid.T) *reader {
	if len(m.readers) == 0 {
		t.Skip("nobody reads")
	}
	return m.readers[rapid.IntRange(0, len(m.readers)-1).Draw(t, "reader")]
}

// poll takes up to n frames of a reader that is not followed.
func (m *machine) poll(t *rapid.T, r *reader, n int) {
	for range n {
		f, ok, more := r.c.Poll()
		if !ok {
			r.more = more
			if (more == nil) != (r.end != nil) {
				t.Fatalf("nothing more for a reader at %d, whose end is %v", r.pos, r.end)
			}
			return
		}
		r.more = nil
		m.frame(t, r, f)
	}
}

// leave goes away without a word.
func (m *machine) leave(t *rapid.T) {
	r := m.draw(t)
	r.leave()
	if !r.followed {
		r.leave() // once more is nothing
		if _, ok, more := r.c.Poll(); ok || more != nil {
			t.Fatal("a frame after leaving")
		}
	}
	m.readers = slices.DeleteFunc(m.readers, func(x *reader) bool { return x == r })
}

// notices takes the frames that came to followers, and holds the polled to it
// that whoever waits is woken when there is something.
func (m *machine) notices(t *rapid.T) {
	for _, r := range m.readers {
		if r.followed {
			r.mu.Lock()
			came := r.came
			r.came = nil
			r.mu.Unlock()
			for _, f := range came {
				m.frame(t, r, f)
			}
			quiet := m.state.Seq == m.state.Durable // else the news goes along with the next delta
			if r.end == nil && (!r.opened || r.pos != m.state.Seq || quiet && m.state.Durable > max(r.from, r.told)) {
				t.Fatalf("a follower is at %d and was told %d of %+v", r.pos, r.told, m.state)
			}
			continue
		}
		if r.more == nil {
			continue
		}
		select {
		case <-r.more:
		default:
			f, ok, _ := r.c.Poll()
			switch {
			case ok && f.Kind == plane.KindDurable && m.state.Seq > m.state.Durable:
				m.frame(t, r, f)
			case ok:
				t.Fatalf("a reader at %d waits, and was not woken for %+v", r.pos, f)
			}
		}
	}
}

// frame holds a reader's next frame to the contracts S and H.
func (m *machine) frame(t *rapid.T, r *reader, f plane.Frame) {
	st := m.state
	wrong := func(why string) {
		t.Fatalf("%s: %+v to a reader at %d, told %d, of %+v", why, brief(f), r.pos, r.told, st)
	}
	if r.end != nil {
		wrong("a frame after the end")
	}
	if got, want := string(f.Encoded(encode)), string(encode(nil, f)); got != want {
		wrong("the shared form is another frame's: " + got)
	}
	if !r.opened {
		if m.fenced() { // the frame is of that moment
			r.first.FloorSeq = min(r.first.FloorSeq, f.FloorSeq)
		}
		if r.begin(f); plain(f) != plain(r.first) {
			wrong(fmt.Sprintf("first, instead of %+v,", r.first))
		}
		return
	}
	switch f.Kind {
	case plane.KindChunk:
		units := plane.UnitsOf(f.Text)
		if f.From != r.pos || f.Seq > st.Seq || f.Seq-f.From != int64(len(units)) || len(units) == 0 || len(f.Text) > plane.MaxChunk {
			wrong("a chunk out of place")
		}
		if !slices.Equal(units, m.produced[f.From:f.Seq]) {
			wrong("a chunk of other text")
		}
		if !r.followed && m.policy.MaxLag > 0 && st.Seq-r.pos > m.policy.MaxLag {
			wrong("a chunk for one that lags too far")
		}
		r.pos = f.Seq
	case plane.KindDurable:
		if _, _, confirmed, _ := m.w.snapshot(); f.Seq <= r.told || f.Seq > st.Durable || f.Seq > confirmed || f.Seq > r.pos {
			wrong("a durable mark that is not so")
		}
		r.told = f.Seq
	case plane.KindEnd:
		exact := f.Seq == st.Durable && f.Status == st.Status && f.Error == st.Error
		early := m.unsealed() && f.Seq <= st.Durable && f.Status == plane.StatusInterrupted
		if r.pos != st.Seq || st.Status == plane.StatusStreaming || !exact && !early {
			wrong("an end that is not so")
		}
	case plane.KindStale:
		floor := m.floor()
		lag := m.policy.MaxLag > 0 && st.Seq-r.pos > m.policy.MaxLag
		if !m.fenced() && !lag && r.pos >= floor || f.FloorSeq > floor || f.DurableSeq > st.Durable {
			wrong("stale without a reason")
		}
	case plane.KindAbsent:
		if !m.abandoned {
			wrong("absent, and hosted")
		}
	default:
		wrong("not a frame to come now")
	}
	if f.Terminal() {
		r.end = &f
	}
}

// begin takes the first frame.
func (r *reader) begin(f plane.Frame) {
	r.opened, r.from, r.pos = true, f.From, f.From
	if f.Terminal() {
		r.end = &f
	}
}

func encode(dst []byte, f plane.Frame) []byte {
	return fmt.Appendf(dst, "%s %d %d %d %q %s", f.Kind, f.From, f.Seq, f.DurableSeq, f.Text, f.Status)
}

// plain is what a reader is told in a first frame.
func plain(f plane.Frame) string {
	return fmt.Sprint(f.Kind, f.StreamID, f.From, f.Seq, f.DurableSeq, f.FloorSeq, f.Ended, f.Epoch)
}

// brief is f without the bulk of its text.
func brief(f plane.Frame) string {
	if len(f.Text) > 80 {
		f.Text = f.Text[:80] + "…"
	}
	return fmt.Sprintf("%+v", f)
}
