package actor

import "time"

// How long a stream that could not be attached is left alone by those who ask again:
// doubled each time.
const (
	firstPause = 500 * time.Millisecond
	maxPause   = 15 * time.Second

	memory = 2 * maxPause // of a pause that is over
)

// pause is a stream's that could not be attached just now.
type pause struct {
	length time.Duration
	until  time.Time
	forget *time.Timer
}

// rest begins a pause, longer than the one before if that was just now. y.mu is held.
func (y *System) rest(id string) {
	p := y.rests[id]
	switch {
	case p != nil:
		p.length = min(2*p.length, maxPause)
		p.forget.Stop()
	case len(y.rests) >= y.cfg.MaxMirrors:
		return
	default:
		p = &pause{length: firstPause}
		y.rests[id] = p
	}
	p.until = time.Now().Add(p.length/2 + jitter(p.length)/2)
	p.forget = time.AfterFunc(p.length+memory, func() {
		y.mu.Lock()
		defer y.mu.Unlock()
		if y.rests[id] == p && time.Now().After(p.until.Add(memory/2)) {
			delete(y.rests, id)
		}
	})
}

// resting reports whether the stream is to be left alone. y.mu is held.
func (y *System) resting(id string) bool {
	p := y.rests[id]
	return p != nil && time.Now().Before(p.until)
}

// rested ends the pause: it is known that there is something to attach. y.mu is
// held.
func (y *System) rested(id string) {
	if p := y.rests[id]; p != nil {
		p.forget.Stop()
		delete(y.rests, id)
	}
}

// Expect says that a stream was opened elsewhere: who asks for it again need not
// wait.
func (y *System) Expect(id string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.rested(id)
}
