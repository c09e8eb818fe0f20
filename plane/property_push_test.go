package plane_test

import (
	"context"
	"errors"
	"fmt"
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
	case 11:
		if m.policy.MaxSlice > 1000 && rapid.Bool().Draw(t, "huge") {
			return strings.Repeat("0123456é", 10_000) + n // over a chunk's bytes
		}
	}
	return strings.Repeat(n, rapid.IntRange(1, 24/len(n)+1).Draw(t, "times"))
}

// push sends some bytes of what is coming, cut anywhere.
func (m *machine) push(t *rapid.T) {
	for range rapid.IntRange(1, 3).Draw(t, "atoms") {
		m.coming += m.atom(t)
	}
	n := len(m.coming)
	if cut := rapid.IntRange(0, 8).Draw(t, "cut"); rapid.Bool().Draw(t, "whole") {
		n = max(0, n-cut)
	}
	delta := m.coming[:n]
	m.coming = m.coming[n:]
	m.pushed(t, int64(len(m.received())), delta, func(ctx context.Context) error { return m.s.Push(ctx, delta) })
}

// pushed judges the answer to a push from offset from, of which fresh is new, and
// takes that over.
func (m *machine) pushed(t *rapid.T, from int64, fresh string, push func(context.Context) error) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
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
		if waited := time.Since(began); waited < 20*time.Millisecond || m.policy.MaxOutstanding > 8 {
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

// accept is the oracle's door.
func (m *machine) accept(delta string) {
	all := m.pending + delta
	ready := all[:len(all)-plane.Held(all)]
	m.pending = all[len(ready):]
	units := plane.RawUnits(ready)
	m.sent = append(m.sent, units...)
	m.produced = append(m.produced, plane.Valid(units)...)
	if len(units) > 0 {
		m.pushes = append(m.pushes, push{int64(len(m.produced)), time.Now()})
	}
}

// received is what the producer has sent, with the half that is held.
func (m *machine) received() []uint16 {
	if rest := plane.RawUnits(m.pending); len(rest) > 0 && rest[0]>>10 == 0xD800>>10 {
		return append(slices.Clip(m.sent), rest[0])
	}
	return m.sent
}

// floor is where the text begins that is still in memory.
func (m *machine) floor() int64 {
	_, floor := m.s.Text()
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
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		return m.s.PushAt(ctx, from, plane.Encode(units, pairs))
	}
	switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
	case kind == 0: // a gap
		m.refused(t, at(end+1, fresh), plane.ErrGap)
	case kind == 1 && len(text) > 0: // other text
		text[rapid.IntRange(0, len(text)-1).Draw(t, "where")] = 'ß'
		m.refused(t, at(from, append(text, fresh...)), plane.ErrConflict)
	case from < m.floor():
		m.refused(t, at(from, text), plane.ErrConflict)
	case kind == 2 && len(text) > 0: // nothing new
		text = text[:rapid.IntRange(0, len(text)).Draw(t, "length")]
		m.pushed(t, from, "", func(context.Context) error { return at(from, text) })
	default:
		m.pushed(t, from, plane.Encode(fresh, pairs), func(context.Context) error { return at(from, append(text, fresh...)) })
	}
}

// pump hands over a source, which tells where its first delta starts or not, and
// may begin with what was sent before.
func (m *machine) pump(t *rapid.T) {
	had := m.received()
	from := int64(len(had))
	at := rapid.Bool().Draw(t, "at")
	if at && (m.pending == "" || m.pending == highHalf) {
		from -= rapid.Int64Range(0, min(from-m.floor(), 40)).Draw(t, "back")
	}
	repeat := plane.Encode(had[from:], true)
	all := repeat
	for range rapid.IntRange(1, 3).Draw(t, "atoms") {
		all += m.atom(t)
	}
	source := func(ctx context.Context) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for len(all) > 0 && ctx.Err() == nil {
				n := min(len(all), 1+len(all)/3)
				delta := all[:n]
				all = all[n:]
				if !yield(delta, nil) {
					return
				}
			}
		}
	}
	_ = repeat
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
	case errors.Is(err, context.DeadlineExceeded) && m.policy.MaxOutstanding <= 8:
	default:
		t.Fatalf("append: %v, want %v", err, kind)
	}
}
