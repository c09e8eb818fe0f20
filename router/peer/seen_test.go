package peer

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func TestAStampIsGoodOnceAndOnlyNearItsTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s seen
		used := map[stamp]bool{}
		var top uint64
		now := int64(1_000_000_000)
		id := session{1}
		for range rapid.IntRange(1, 200).Draw(t, "stamps") {
			now += rapid.Int64Range(0, 40_000).Draw(t, "passes")
			st := stamp{
				at:      now + rapid.Int64Range(-31_000, 31_000).Draw(t, "off"),
				session: id,
				number:  rapid.OneOf(rapid.Uint64Range(0, 40), rapid.Uint64Range(60_000, 70_000), rapid.Uint64Range(1<<40, 1<<40+5)).Draw(t, "number"),
			}
			got := s.use(st, now)
			off := st.at - now
			key := stamp{session: id, number: st.number}
			switch {
			case off < -stampWindow || off > stampWindow:
				if got != refusedClock {
					t.Fatalf("a stamp %d ms off: %q", off, got)
				}
			case st.number == 0 || used[key] || top >= numbersKept && st.number <= top-numbersKept:
				if got != refusedReplay {
					t.Fatalf("number %d, used %v, top %d: %q", st.number, used[key], top, got)
				}
			default:
				if got != "" {
					t.Fatalf("number %d, top %d: %q", st.number, top, got)
				}
				used[key], top = true, max(top, st.number)
			}
		}
	})
}

func TestStampsOutOfOrderAreGood(t *testing.T) {
	var s seen
	for _, i := range rand.Perm(numbersKept) {
		if why := s.use(stamp{number: uint64(i) + 1}, 0); why != "" {
			t.Fatalf("number %d: %s", i+1, why)
		}
	}
}

func TestSessionsAreBoundedAndForgotten(t *testing.T) {
	var s seen
	id := func(i int) session { return session{byte(i), byte(i >> 8), byte(i >> 16)} }
	for i := range maxSessions {
		if why := s.use(stamp{session: id(i), number: 1}, 0); why != "" {
			t.Fatalf("session %d: %s", i, why)
		}
	}
	if why := s.use(stamp{session: id(maxSessions), number: 1}, 0); why != refusedBusy {
		t.Errorf("one session more: %q", why)
	}
	if why := s.use(stamp{session: id(0), number: 2}, 0); why != "" {
		t.Errorf("a session that is known: %q", why)
	}
	later := int64(sessionIdle + 1)
	if why := s.use(stamp{at: later, session: id(maxSessions), number: 1}, later); why != "" {
		t.Errorf("after the others fell idle: %q", why)
	}
	if len(s.sessions) != 1 {
		t.Errorf("%d sessions are kept, want 1", len(s.sessions))
	}
}

func TestAStampReadsBackAsWritten(t *testing.T) {
	st := stamp{at: -5, session: newSession(), number: 1<<64 - 1}
	if got, ok := parseStamp(st.String()); !ok || got != st {
		t.Errorf("%v reads back as %v, %v", st, got, ok)
	}
}
