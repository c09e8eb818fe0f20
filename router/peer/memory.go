package peer

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	downFor    = 5 * time.Second // after a failure, give or take a quarter
	probeAfter = time.Second     // after a failure, give or take a quarter
)

// memory is what is remembered of a peer's failures. It is safe for concurrent
// use.
type memory struct {
	mu      sync.Mutex // guards below
	cause   error      // of the last failure; nil if a success came after it
	until   time.Time
	probeAt time.Time
	probing bool
}

// pass is one request's leave to try a peer.
type pass struct {
	m     *memory
	probe bool
}

// admit gives leave, or says why the peer is not to be tried.
func (m *memory) admit() (pass, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.cause == nil || !now.Before(m.until) {
		return pass{m: m}, nil
	}
	if m.probing || now.Before(m.probeAt) {
		return pass{}, m.cause
	}
	m.probing = true
	return pass{m: m, probe: true}, nil
}

// give back the leave, whatever came of it.
func (p pass) giveBack() {
	if p.probe {
		p.m.mu.Lock()
		defer p.m.mu.Unlock()
		p.m.probing = false
	}
}

func (m *memory) failed(cause error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.cause, m.until, m.probeAt = cause, now.Add(jittered(downFor)), now.Add(jittered(probeAfter))
}

func (m *memory) succeeded() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cause = nil
}

func (m *memory) down() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cause != nil && time.Now().Before(m.until)
}

// jittered spreads what many would else do at the same moment.
func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.75 + rand.Float64()/2))
}
