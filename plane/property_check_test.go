package plane_test

import (
	"errors"
	"slices"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
)

// inside reports whether off lies between the halves of a pair of units.
func inside(units []uint16, off int64) bool {
	return off > 0 && off < int64(len(units)) && units[off]>>10 == 0xDC00>>10 && units[off-1]>>10 == 0xD800>>10
}

// prefix reports whether short is how long begins.
func prefix(short, long []uint16) bool {
	return len(short) <= len(long) && slices.Equal(short, long[:len(short)])
}

// Check holds the stream, the store and the readers to the oracle once all that
// can run has run.
func (m *machine) Check(t *rapid.T) {
	synctest.Wait()
	was := m.state
	m.state = m.s.State()
	m.mu.Lock()
	failed := m.failed
	m.mu.Unlock()
	if len(failed) > 0 {
		t.Fatal(failed[0])
	}
	m.checkOver(t)
	m.checkLengths(t, was)
	m.checkPolicy(t)
	m.checkStored(t)
	m.notices(t)
}

// checkOver takes note of the end of the intake. It comes by a seal that was
// asked for, by a cancel that nobody heeded, or with the loss of the row.
func (m *machine) checkOver(t *rapid.T) {
	if m.over == m.state.Over {
		return
	}
	m.over = true
	m.mu.Lock()
	if m.final == "" && m.s.IsCancelled() && m.policy.CancelGrace > 0 {
		m.final = plane.StatusCancelled
	}
	asked := m.final != ""
	m.mu.Unlock()
	if !asked && !m.rival && !m.abandoned {
		t.Fatalf("the stream takes no more, and nobody asked: %+v", m.state)
	}
	rest := plane.RawUnits(m.pending)
	if !m.rival && !m.abandoned || m.state.Seq == int64(len(m.produced)+len(rest)) {
		m.produce(m.pending)
		m.pending = ""
	}
}

func (m *machine) checkLengths(t *rapid.T, was plane.State) {
	st := m.state
	_, _, confirmed, _ := m.w.snapshot()
	switch {
	case st.Seq != int64(len(m.produced)) || st.Received != int64(len(m.received())):
		t.Fatalf("%+v, want %d produced of %d received", st, len(m.produced), len(m.received()))
	case st.Durable < was.Durable || st.Durable > st.Seq:
		t.Fatalf("durable went from %d to %d of %d", was.Durable, st.Durable, st.Seq)
	case st.Durable > confirmed:
		t.Fatalf("durable is %d, and the store confirmed %d", st.Durable, confirmed)
	case inside(m.produced, st.Durable):
		t.Fatalf("durable %d lies inside a pair", st.Durable)
	}
	text, floor, _ := m.s.Snapshot()
	if !slices.Equal(plane.UnitsOf(text), m.produced[floor:]) {
		t.Fatalf("the text from %d is %q, want %q", floor, text, plane.Encode(m.produced[floor:], true))
	}
	m.checkFloor(t, floor)
}

// checkFloor holds the stream to it that it keeps what it must keep, and that
// the budget knows of all that it does.
func (m *machine) checkFloor(t *rapid.T, floor int64) {
	st := m.state
	least, most := int64(0), int64(0)
	if !m.w.tables {
		least = m.durableBut(m.retain)
		most = least
	}
	if m.budget != nil {
		most = max(most, m.durableBut(m.keep))
	}
	if _, hosted := m.sys.Stream("s"); !hosted {
		most = st.Seq
	}
	if floor > most || floor < least && st.Status == plane.StatusStreaming {
		t.Fatalf("text from %d is kept, want from %d to %d of %+v", floor, least, most, st)
	}
	if used, weight := m.budget.Used(), m.s.Weight(); m.budget != nil && used != weight {
		t.Fatalf("the budget counts %d bytes of %d", used, weight)
	}
}

// durableBut is where the last so many durable units begin.
func (m *machine) durableBut(keep int64) int64 {
	at := max(0, m.state.Durable-keep)
	if inside(m.produced, at) {
		at--
	}
	return at
}

// checkPolicy holds a stream whose store never failed to the promise that text
// waits for so many units, or for so long, and no longer.
func (m *machine) checkPolicy(t *rapid.T) {
	st := m.state
	for len(m.pushes) > 0 && m.pushes[0].seq <= st.Durable {
		m.pushes = m.pushes[1:]
	}
	if m.troubled || m.slow || m.rival || m.over || len(m.pushes) == 0 {
		return
	}
	if waits := time.Since(m.pushes[0].at); waits >= m.policy.Interval || st.Seq-st.Durable >= m.policy.Units {
		t.Fatalf("%d units wait for the store, for %v", st.Seq-st.Durable, waits)
	}
}

// checkStored holds the store's text to P, and what it was asked to S.
func (m *machine) checkStored(t *rapid.T) {
	row, text, _, wrong := m.w.snapshot()
	switch {
	case len(wrong) > 0:
		t.Fatal(wrong[0])
	case m.moved && row.Status.Ended() && row.Seq == int64(len(text)) && prefix(text, m.produced): // sealed, and so repaired
		m.moved, m.frozen = false, text
	case m.rival && !slices.Equal(text, m.frozen):
		t.Fatalf("another's row was changed: %q, was %q", plane.Encode(text, true), plane.Encode(m.frozen, true))
	case m.rival:
	case row.Seq != int64(len(text)) || !prefix(text, m.produced):
		t.Fatalf("%d units are stored, %q, not a prefix of %q", row.Seq, plane.Encode(text, true), plane.Encode(m.produced, true))
	}
	for _, w := range m.w.seen() {
		if w.Seq > m.state.Seq || !slices.Equal(plane.UnitsOf(w.Text), m.produced[w.From:w.Seq]) {
			t.Fatalf("write %d..%d of %q, want %q", w.From, w.Seq, w.Text, plane.Encode(m.produced[w.From:min(w.Seq, m.state.Seq)], true))
		}
		if inside(m.produced, w.From) || inside(m.produced, w.Seq) {
			t.Fatalf("write %d..%d cuts a pair", w.From, w.Seq)
		}
	}
}

// calmEnd ends the faults, then the stream, and wants an end for all.
func (m *machine) calmEnd(t *rapid.T) {
	m.calm()
	time.Sleep(2 * time.Minute)
	m.Check(t)
	if !m.over && m.state.Durable != m.state.Seq {
		t.Fatalf("the store works, and does not get the text: %+v", m.state)
	}
	if !m.over && m.s.IsCancelled() && m.policy.CancelGrace > 0 {
		t.Fatalf("nobody ended a stream that was asked to stop: %+v", m.state)
	}
	m.abandoned = !m.over && rapid.IntRange(0, 4).Draw(t, "abandon") == 0
	if m.abandoned {
		if err := m.sys.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	} else {
		m.sealNow(t.Context(), "close")
	}
	m.Check(t)
	for _, r := range m.readers {
		if !r.followed {
			m.poll(t, r, 1<<30)
		}
		if r.end == nil {
			t.Fatalf("a reader at %d waits for ever: %+v", r.pos, m.state)
		}
	}
	m.calls.Wait()
	m.w.later.Wait()
	time.Sleep(2 * time.Minute)
	m.Check(t)
	if !m.abandoned {
		m.checkEnd(t)
	}
	time.Sleep(actor.DefaultLinger)
	synctest.Wait()
	live, lingering := m.sys.Counts()
	if _, hosted := m.sys.Stream("s"); hosted || live != 0 || lingering != 0 || m.budget.Used() != 0 {
		t.Fatalf("after the linger: %d live, %d linger, %d bytes", live, lingering, m.budget.Used())
	}
}

// checkEnd holds what is stored, what the hook was told and what the stream says
// of itself against each other.
func (m *machine) checkEnd(t *rapid.T) {
	row, text, _, _ := m.w.snapshot()
	st := m.state
	if len(m.ended) != 1 {
		t.Fatalf("the end was told %d times", len(m.ended))
	}
	e := m.ended[0]
	if m.replaced != m.lost {
		t.Fatalf("the hook was told of %d characters replaced, not of %d", m.replaced, m.lost)
	}
	whole := st.Durable == st.Seq && slices.Equal(text, m.produced)
	switch {
	case !st.Over || e.Seq > st.Durable || e.Err == nil && (e.Seq != st.Durable || e.Status != st.Status):
	case m.rival && errors.Is(e.Err, plane.ErrFenced) && st.Status == plane.StatusInterrupted:
		return
	case m.rival && e.Err == nil && row.Status.Ended() && whole:
		return
	case errors.Is(e.Err, plane.ErrShort) && m.troubled && e.Status == plane.StatusInterrupted && (m.rival || whole):
		m.checkRow(t, row, plane.StatusInterrupted)
		return
	case e.Err == nil && !m.rival && st.Status == row.Status && whole:
		m.checkRow(t, row, m.final)
		return
	}
	t.Fatalf("%+v ended as %+v, and the row is %+v", st, e, row)
}

// checkRow wants the row to have ended as was asked first, or as it may have.
func (m *machine) checkRow(t *rapid.T, row plane.Row, may plane.Status) {
	late := m.final == plane.StatusComplete && row.Status == plane.StatusCancelled && row.Cancel
	switch {
	case m.rival:
	case row.Status != m.final && row.Status != may && !late:
		t.Fatalf("the row ended %+v, want %s", row, m.final)
	case (row.Error == "boom") != (row.Status == plane.StatusError):
		t.Fatalf("the row ended %+v", row)
	}
}
