package peer

import (
	"maps"
	"sync"
)

const (
	stampWindow = 30_000          // milliseconds that a stamp may be off
	numbersKept = 1 << 16         // of a session; an older number counts as seen
	maxSessions = 4096            // 8 KiB each
	sessionIdle = 2 * stampWindow // milliseconds after which none of a session's stamps is in the window any more
	wordBits    = 64
)

// refusal says why a request is not let through. Only a caller that proved to be
// a member is told.
type refusal string

const (
	refusedTarget refusal = "target" // meant for another member
	refusedClock  refusal = "clock"  // stamp is too old or too new
	refusedReplay refusal = "replay" // stamp was used
	refusedBusy   refusal = "busy"   // too many sessions
	refusedLoop   refusal = "loop"   // too many hops
)

// seen knows which stamps were used. It is safe for concurrent use.
type seen struct {
	mu       sync.Mutex // guards below
	sessions map[session]*numbers
	swept    int64 // when idle ones were last forgotten, milliseconds
}

// numbers is one session's: bit n%numbersKept says that n was used, for the
// numbersKept numbers up to top.
type numbers struct {
	top  uint64
	last int64 // when one was used, milliseconds
	used [numbersKept / wordBits]uint64
}

// use marks a stamp as used, or says why it can't be.
func (s *seen) use(st stamp, now int64) refusal {
	if off := st.at - now; off < -stampWindow || off > stampWindow {
		return refusedClock
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.sessions[st.session]
	if n == nil {
		if n = s.begin(st.session, now); n == nil {
			return refusedBusy
		}
	}
	if !n.use(st.number) {
		return refusedReplay
	}
	n.last = max(n.last, now)
	return ""
}

// begin makes room for a session. Those are forgotten of which no stamp can be
// in the window any more.
func (s *seen) begin(id session, now int64) *numbers {
	if now-s.swept > sessionIdle || len(s.sessions) >= maxSessions {
		s.swept = now
		maps.DeleteFunc(s.sessions, func(_ session, n *numbers) bool { return now-n.last > sessionIdle })
	}
	if len(s.sessions) >= maxSessions {
		return nil
	}
	if s.sessions == nil {
		s.sessions = make(map[session]*numbers)
	}
	n := &numbers{last: now}
	s.sessions[id] = n
	return n
}

func (n *numbers) use(number uint64) bool {
	if number == 0 || number+numbersKept <= n.top {
		return false
	}
	if number > n.top {
		n.advance(number)
	}
	word, bit := number%numbersKept/wordBits, uint64(1)<<(number%wordBits)
	if n.used[word]&bit != 0 {
		return false
	}
	n.used[word] |= bit
	return true
}

// advance clears the bits of the numbers that come into view.
func (n *numbers) advance(top uint64) {
	if top-n.top >= numbersKept {
		n.used = [len(n.used)]uint64{}
	} else {
		for i := n.top + 1; i <= top; i++ {
			n.used[i%numbersKept/wordBits] &^= 1 << (i % wordBits)
		}
	}
	n.top = top
}
