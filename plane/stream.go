package plane

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Stream is one live response on its owner. Its producer pushes text and ends
// it; readers join it. All methods are safe for concurrent use, but the order
// of concurrent pushes is not defined.
//
// An idle stream costs its text and a few hundred bytes: it has no goroutine,
// and no timer but while text waits for a checkpoint, or its producer is given
// time to end what was cancelled.
type Stream struct {
	Live
	token string
	cfg   *Config

	tasks     sync.WaitGroup // the round or seal in flight
	cancelled chan struct{}  // closed when the stream was asked to stop
	shut      chan struct{}  // closed when the stream takes no more: no retry waits any longer

	// Guarded by mu.
	by   producing
	in   intake
	last repeat        // of the last long delta that came with its offset
	room chan struct{} // closed when text became durable, or a push may be refused; nil while none waits

	inFlight bool    // a round or the seal runs
	overdue  bool    // the interval passed while a round ran
	hurried  bool    // the last of the failed rounds was a flush's, ahead of its time
	aim      int64   // what was produced when the round began: rounds go on to here, or flushes to here fail
	failed   int     // rounds that failed in a row
	tried    []int64 // ends of slices whose fate is unknown
	timer    *time.Timer
	due      time.Time   // when the timer counts; zero while disarmed
	waiters  []waiter    // flushes
	grace    *time.Timer // seals a cancelled stream; nil if it was not asked to stop

	meta   *json.RawMessage // goes into the row with the seal; nil is none
	ending *ending          // the seal that was asked for first
	over   error            // why the stream takes no more: ErrClosed, ErrFenced or ErrMoved
	move   *move            // the hand-over under way, or that was
}

// Open claims a stream in the store and returns it live. Refusals are this
// package's errors and are not retried; what else fails is, by the policy.
func Open(ctx context.Context, cfg Config, claim Claim) (*Stream, error) {
	cfg, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	var row Row
	_, err = cfg.Policy.repeat(ctx, func() error {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Policy.StoreTimeout)
		defer cancel()
		row, err = cfg.Store.Open(call, claim)
		return err
	}, func(err error) bool { return Refused(err) || final(err) })
	if err != nil {
		return nil, fmt.Errorf("open stream: %w", err)
	}
	row.Producer = cmp.Or(row.Producer, claim.Producer)
	return newStream(&cfg, claim.ID, row, 1), nil
}

// GiveBack sees to a row that claim.Node may hold though it has no such stream:
// after an Open that failed without an answer, or where the store went back to an
// earlier claim. The row is sealed interrupted, with what it holds (L). Where
// nobody has claimed the row, or there is none, that is not settled: the statement
// may still be on its way. It is settled once the row can't be claim.Node's any
// more. ErrNoAnswer says that the same holds for the seal: until that is settled,
// the claim must not be taken over, since the seal could not tell it from this one.
func GiveBack(ctx context.Context, cfg Config, claim Claim) (settled bool, err error) {
	cfg, err = cfg.resolve()
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Policy.StoreTimeout)
	defer cancel()
	row, err := cfg.Store.Read(ctx, claim.ID)
	switch {
	case errors.Is(err, ErrNoReadBack):
		return true, nil
	case errors.Is(err, ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("give back claim: %w", err)
	case row.Status.Ended():
		return true, nil
	case row.Status != StatusStreaming:
		return false, nil
	case !strings.HasPrefix(row.Token, claim.Node+"/"):
		return true, nil
	}
	row, err = cfg.Store.Seal(ctx, Seal{
		ID: claim.ID, Token: row.Token, Status: StatusInterrupted, From: row.Seq, Base: row.Seq, Seq: row.Seq,
	})
	if err != nil {
		if !undone(err) {
			err = fmt.Errorf("%w: %w", ErrNoAnswer, err)
		}
		return false, fmt.Errorf("give back claim: %w", err)
	}
	if row.Status.Ended() {
		cfg.repaired(claim.ID, row)
	}
	return row.Status.Ended(), nil
}

// newStream returns a stream whose producer is of a session.
func newStream(cfg *Config, id string, row Row, session int64) *Stream {
	s := &Stream{
		Live:  Live{id: id, epoch: row.Epoch, budget: cfg.Budget, maxLag: cfg.Policy.MaxLag},
		token: row.Token, cfg: cfg, by: producing{name: row.Producer, session: session, heard: cfg.Clock.Now()},
		cancelled: make(chan struct{}), shut: make(chan struct{}),
	}
	if row.Cancel {
		s.cancel()
	}
	return s
}

// Refused reports whether err is an answer of an open or an adoption, not a failure:
// asking again cannot help.
func Refused(err error) bool {
	for _, final := range []error{ErrNotFound, ErrExists, ErrNullLength, ErrHeld, ErrLostRace, ErrFenced, ErrClosed} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}

// State is a stream at one moment.
type State struct {
	Seq      int64  // produced, UTF-16 code units
	Received int64  // where the next append starts: Seq, and a half of a pair that is held
	Durable  int64  // confirmed by the store; never above Seq. It falls only where that went back: ErrWentBack
	Readers  int    // that have joined and not left
	Status   Status // streaming, or how it ended for its readers
	Error    string
	Over     bool // takes no more text
}

// State returns the stream as it is now.
func (s *Stream) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state()
}

// state is State with s.mu held.
func (s *Stream) state() State {
	st := State{
		Seq: s.text.end(), Received: s.received(), Durable: s.durable,
		Readers: s.readers, Status: StatusStreaming, Over: s.over != nil || s.ending != nil,
	}
	switch {
	case s.end != nil && s.end.Kind == KindEnd:
		st.Status, st.Error = s.end.Status, s.end.Error
	case s.end != nil && !errors.Is(s.over, ErrMoved):
		st.Status = StatusInterrupted
	}
	return st
}

// Snapshot returns the text that is in memory, the offset at which it begins, and
// the stream's state at the same moment.
func (s *Stream) Snapshot() (text string, from int64, st State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.slice(s.floor, s.text.end()), s.floor, s.state()
}

// received is where the next append starts. s.mu is held.
func (s *Stream) received() int64 { return s.text.end() + s.in.units() }

// outstanding is what the store does not hold yet. s.mu is held.
func (s *Stream) outstanding() int64 { return s.text.end() - s.durable }

// retryDelay is the pause before repeat n, counted from 0.
func (p Policy) retryDelay(n int) time.Duration {
	delay := p.RetryDelay
	for ; n > 0 && delay < p.MaxBackoff; n-- {
		delay *= 2
	}
	return min(delay, max(p.MaxBackoff, p.RetryDelay))
}

// repeat calls try until it succeeds, fails for good, or the retries are used
// up, with the policy's delays between, and says how often it did.
func (p Policy) repeat(ctx context.Context, try func() error, final func(error) bool) (attempts int, err error) {
	for n := 0; ; n++ {
		err := try()
		if err == nil || n == p.Retries || final(err) {
			return n + 1, err
		}
		delay := time.NewTimer(p.retryDelay(n))
		select {
		case <-delay.C:
		case <-ctx.Done():
			delay.Stop()
			return n + 1, errors.Join(err, ctx.Err())
		}
	}
}
