package ring

import (
	"errors"
	"log/slog"
	"sync"
	"time"
)

// refusals counts who was kept out and why. What happens at every packet of a
// stranger is logged once a minute.
type refusals struct {
	journal *journal

	mu     sync.Mutex
	counts map[error]uint64
	logged map[error]time.Time
}

func newRefusals(j *journal) *refusals {
	return &refusals{journal: j, counts: make(map[error]uint64), logged: make(map[error]time.Time)}
}

// note counts a refusal by its kind, and waits for nothing.
func (f *refusals) note(err error) {
	kind := errMalformed
	for _, k := range []error{ErrSecret, ErrCluster, ErrNameTaken, ErrSettings} {
		if errors.Is(err, k) {
			kind = k
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[kind]++
	if now := time.Now(); f.logged[kind].IsZero() || now.Sub(f.logged[kind]) >= time.Minute {
		f.logged[kind] = now
		f.journal.write(slog.LevelWarn, "ring: refused", slog.Any("error", err), slog.Uint64("count", f.counts[kind]))
	}
}

// errMalformed is the kind of members that make no sense.
var errMalformed = errors.New("malformed")

func (f *refusals) count(kind error) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[kind]
}
