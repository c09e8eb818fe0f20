package plane_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"rillkeep.dev/rillkeep/plane"
)

const (
	highHalf = "\xED\xA0\xBD" // D83D, the first half of 😀
	lowHalf  = "\xED\xB8\x80" // DE00, its second
)

// patience is how long a push waits for room: no multiple of what else takes
// time, so that nothing happens as it ends.
const patience = 20*time.Millisecond + time.Microsecond

// atom draws a piece of text, or of what is none, that a producer may send. The
// numbers make any two places of a text different.
func (m *machine) atom(t *rapid.T) string {
	m.count++
	n := fmt.Sprint(m.count)
	switch rapid.IntRange(0, 40).Draw(t, "atom") {
	case 0:
		return n + highHalf
	case 1:
		return lowHalf + n
	case 2:
		if m.policy.MaxSlice > 1000 && rapid.Bool().Draw(t, "huge") {
			return strings.Repeat("012漢😀", 9_000) + n // over a chunk's bytes
		}
		return "\x00" + n
	case 3:
		return n + "\xFF\xE6\xBC"
	case 4:
		return highHalf + lowHalf + n
	case 5, 6:
		return "é漢" + n
	case 7, 8, 9:
		return "😀" + n
	case 10:
		return strings.Repeat("😀a", 600) + n // over the text's marks
	}
	return strings.Repeat(n, rapid.IntRange(1, 24/len(n)+1).Draw(t, "times"))
}

// push sends some bytes of what is coming, cut anywhere.
func (m *machine) push(t *rapid.T) {
	for range rapid.IntRange(1, 3).Draw(t, "atoms") {
		m.coming += m.atom(t)
	}
	if room := m.policy.MaxUnits - int64(len(m.produced)); room < 60 && rapid.Bool().Draw(t, "fill") {
		m.coming = strings.Repeat("y", int(room))
	}
	n := len(m.coming)
	if cut := rapid.IntRange(0, 8).Draw(t, "cut"); rapid.Bool().Draw(t, "whole") {
		n = max(0, n-cut)
	}
	delta := m.coming[:n]
	m.coming = m.coming[n:]
	m.pushed(t, int64(len(m.received())), delta, func(ctx context.Context) error {
		if m.as.Session > 0 && len(delta)%2 == 0 {
			return m.s.PushAs(ctx, m.as, -1, delta)
		}
		return m.s.Push(ctx, delta)
	})
}

// resume begins another session of the producer. It goes on after what has a length, and
// the one before is refused.
func (m *machine) resume(t *rapid.T) {
	before, st := m.s.ProducerEpoch(), m.s.State()
	as, err := m.s.Resume("")
	switch {
	case err != nil && !st.Over:
		t.Fatalf("resume: %v", err)
	case err != nil:
		return
	case !before.Before(as) || m.s.State().Received != st.Received:
		t.Fatalf("resumed as %v at %d, was %v at %d", as, m.s.State().Received, before, st.Received)
	}
	m.as = as
	m.pending = m.pending[:len(m.pending)-begun(m.pending)]
	if err := m.s.PushAs(t.Context(), before, -1, "late"); !errors.Is(err, plane.ErrSuperseded) {
		t.Fatalf("the producer before was answered %v", err)
	}
	if _, err := m.s.CloseAs(t.Context(), before); !errors.Is(err, plane.ErrSuperseded) {
		t.Fatalf("the producer before was answered %v", err)
	}
}

// pushed judges the answer to a push from offset from, of which fresh is new, and
// takes that over.
func (m *machine) pushed(t *rapid.T, from int64, fresh string, push func(context.Context) error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began, before := time.Now(), m.s.State().Seq
	err := push(ctx)
	st := m.s.State()
	switch {
	case err == nil && fresh != "" && (m.over || st.Seq > m.policy.MaxUnits || before-st.Durable >= m.policy.MaxOutstanding):
		t.Fatalf("%+v after a push", st)
	case err == nil:
		m.accept(fresh)
	case errors.Is(err, plane.ErrTooLong):
		if whole := plane.RawUnits(m.pending + fresh); int64(len(m.produced)+len(whole)) <= m.policy.MaxUnits {
			t.Fatalf("%v: %d and %d units", err, len(m.produced), len(whole))
		}
	case errors.Is(err, plane.ErrConflict) && from < m.floor():
		// what it repeats was trimmed while it waited for room
	case errors.Is(err, context.DeadlineExceeded):
		if waited := time.Since(began); waited < patience || !m.full(st) {
			t.Fatalf("push gave up after %v with %d outstanding", waited, st.Seq-st.Durable)
		}
	case errors.Is(err, plane.ErrClosed) || errors.Is(err, plane.ErrFenced):
		if !st.Over || errors.Is(err, plane.ErrFenced) && !m.rival {
			t.Fatalf("push: %v", err)
		}
	default:
		t.Fatalf("push: %v", err)
	}
}

// full reports whether a push may have to wait.
func (m *machine) full(st plane.State) bool {
	waits := st.Seq - st.Durable
	return waits >= m.policy.MaxOutstanding || waits > m.policy.Units && m.budget.Exceeded()
}

// accept is the oracle's door.
func (m *machine) accept(delta string) {
	all := m.pending + delta
	ready := all[:len(all)-plane.Held(all)]
	m.pending = all[len(ready):]
	m.produce(ready)
}

func (m *machine) produce(raw string) {
	units := plane.RawUnits(raw)
	seen := plane.Valid(units)
	m.sent = append(m.sent, units...)
	m.produced = append(m.produced, seen...)
	for _, u := range seen {
		if u == 0xFFFD {
			m.lost++
		}
	}
	m.lost -= int64(strings.Count(raw, "\uFFFD"))
	if len(units) > 0 {
		m.pushes = append(m.pushes, push{int64(len(m.produced)), time.Now()})
	}
}

// received is what the producer has sent, with the half that is held.
func (m *machine) received() []uint16 {
	return append(slices.Clip(m.sent), plane.RawUnits(m.pending[:len(m.pending)-begun(m.pending)])...)
}

// floor is where the text begins that is still in memory.
func (m *machine) floor() int64 {
	_, floor, _ := m.s.Snapshot()
	return floor
}

// pushAt sends text with its offset: what comes next, some of it again, a gap,
// or something else than was sent before.
func (m *machine) pushAt(t *rapid.T) {
	if m.pending != "" && m.pending != highHalf {
		t.Skip("a producer that cut a character knows no offset")
	}
	had := m.received()
	end := int64(len(had))
	from := end - rapid.Int64Range(0, min(end, 40)).Draw(t, "back")
	if rapid.IntRange(0, 9).Draw(t, "from the start") == 0 {
		from = 0
	}
	text := slices.Clone(had[from:])
	fresh := plane.RawUnits(m.atom(t))
	pairs := rapid.Bool().Draw(t, "pairs")
	at := func(from int64, units []uint16) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return m.s.PushAt(ctx, from, plane.Encode(units, pairs))
	}
	switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
	case kind == 0: // a gap
		m.refused(t, at(end+1, fresh), plane.ErrGap)
	case kind == 1 && len(text) > 0: // other text
		text[rapid.IntRange(0, len(text)-1).Draw(t, "where")] = 'ß'
		m.refused(t, at(from, append(text, fresh...)), plane.ErrConflict)
	case from < m.floor(): // which may be known to be the last delta
		if err := at(from, text); err != nil {
			m.refused(t, err, plane.ErrConflict)
		}
	case kind == 2 && len(text) > 0: // nothing new
		text = text[:rapid.IntRange(0, len(text)).Draw(t, "length")]
		m.pushed(t, from, "", func(context.Context) error { return at(from, text) })
	default:
		m.pushed(t, from, plane.Encode(fresh, pairs), func(context.Context) error { return at(from, append(text, fresh...)) })
	}
}

// pump hands over a source that may begin with what was sent before, if it tells
// where it starts, and cuts its text anywhere.
func (m *machine) pump(t *rapid.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	had := m.received()
	from := int64(len(had))
	at := rapid.Bool().Draw(t, "at") && (m.pending == "" || m.pending == highHalf)
	if at {
		from -= rapid.Int64Range(0, min(from-m.floor(), 40)).Draw(t, "back")
	}
	repeat := plane.Encode(had[from:], true)
	coming := repeat + m.atom(t) + m.atom(t) + "." // the last character is whole
	given, last := 0, 0                            // bytes that were asked for, and without the last delta
	source := func(context.Context) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for more := true; more && given < len(coming); {
				last, given = given, given+rapid.IntRange(6, 30).Draw(t, "bytes")
				if len(coming)-given < 6 {
					given = len(coming)
				}
				more = yield(coming[last:given], nil)
			}
		}
	}
	var err error
	if at {
		err = m.s.PumpAt(ctx, from, source)
	} else {
		err = m.s.Pump(ctx, source)
	}
	m.pumped(t, err, func(to int) string {
		pushed := coming[len(repeat):max(len(repeat), to)]
		if early := err != nil || m.s.IsCancelled(); at && early {
			pushed = pushed[:len(pushed)-begun(pushed)]
		}
		return pushed
	}, last, given)
}

// begun returns how many bytes at the end of s have no length yet.
func begun(s string) int {
	n := plane.Held(s)
	if units := plane.RawUnits(s[len(s)-n:]); n > 0 && units[0]>>10 == 0xD800>>10 {
		n -= 3
	}
	return n
}

// trim takes memory away.
func (m *machine) trim(*rapid.T) { m.s.Trim() }

// pumped judges how a pump ended, and takes over what it pushed: all that it was
// given, or all but the last delta if that was not taken: any delta adds a unit.
func (m *machine) pumped(t *rapid.T, err error, pushed func(to int) string, last, given int) {
	st := m.s.State()
	all := pushed(given)
	switch {
	case err == nil || st.Over:
	case errors.Is(err, context.DeadlineExceeded) && m.full(st):
	case errors.Is(err, plane.ErrTooLong) && len(m.produced)+len(plane.RawUnits(m.pending+all)) > int(m.policy.MaxUnits):
	case errors.Is(err, plane.ErrConflict) && m.floor() > 0: // trimmed while it waited for room
	default:
		t.Fatalf("pump: %v", err)
	}
	if st.Received != m.after(all) && !(st.Over && st.Received == int64(len(m.sent)+len(plane.RawUnits(m.pending+all)))) {
		all = pushed(last)
	}
	m.accept(all)
}

// after is what will have been received when delta is.
func (m *machine) after(delta string) int64 {
	all := m.pending + delta
	return int64(len(m.sent) + len(plane.RawUnits(all[:len(all)-begun(all)])))
}

// refused wants an append refused for its offset, unless nothing is taken at all.
func (m *machine) refused(t *rapid.T, err, kind error) {
	var offset *plane.OffsetError
	switch {
	case errors.As(err, &offset):
		if !errors.Is(err, kind) || offset.Want != int64(len(m.received())) {
			t.Fatalf("%v, want %v and %d", err, kind, len(m.received()))
		}
	case m.s.State().Over && (errors.Is(err, plane.ErrClosed) || errors.Is(err, plane.ErrFenced)):
	case errors.Is(err, context.DeadlineExceeded) && m.full(m.s.State()):
	default:
		t.Fatalf("append: %v, want %v", err, kind)
	}
}
