package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// What a Memory answers when it was told to fail.
var (
	ErrWrite   = errors.New("write failed")
	ErrAckLost = errors.New("answer was lost")
	ErrRead    = errors.New("read failed")
	ErrNUL     = errors.New("text holds NUL")
)

// faults are what a Memory was told. Its mutex guards them.
type faults struct {
	writeLatency, readLatency       time.Duration
	failWrites, loseAcks, failReads int
	hang                            bool
	rivals                          map[string]func(*Row)
}

// Latency makes each write take that long before it runs, and each read, and
// the reading back of each append, that long before it is answered.
func (m *Memory) Latency(write, read time.Duration) {
	m.told(func(f *faults) { f.writeLatency, f.readLatency = write, read })
}

// FailWrites makes n writes fail before they run: the next ones, after those
// that are to fail already.
func (m *Memory) FailWrites(n int) { m.told(func(f *faults) { f.failWrites += n }) }

// LoseAcks makes n more writes take effect and then fail.
func (m *Memory) LoseAcks(n int) { m.told(func(f *faults) { f.loseAcks += n }) }

// FailReads makes n more reads fail. An open begins with one. While any are
// due an append takes effect and then fails, as one that can't be read back
// does, but uses up none: the caller's own read does.
func (m *Memory) FailReads(n int) { m.told(func(f *faults) { f.failReads += n }) }

// Hang makes calls that begin wait until their contexts end, and then fail
// without effect.
func (m *Memory) Hang(on bool) { m.told(func(f *faults) { f.hang = on }) }

// Rival changes a row just before the next write to it takes effect. An open
// that found the row free has then lost a race.
func (m *Memory) Rival(id string, change func(*Row)) {
	m.told(func(f *faults) {
		if f.rivals == nil {
			f.rivals = make(map[string]func(*Row))
		}
		f.rivals[id] = change
	})
}

// Clear takes back all of the above.
func (m *Memory) Clear() { m.told(func(f *faults) { *f = faults{} }) }

func (m *Memory) told(what func(*faults)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	what(&m.faults)
}

// Call is a call that a Memory answered.
type Call struct {
	Kind    string // open, append, seal, cancel, disown, adopt, takeover, read, get, text or list
	ID      string
	From    int64 // append and seal
	Seq     int64
	Text    string
	Outcome string // ok, or why not: what the error says
	At      time.Time
}

// Calls answers the calls so far, in the order of their answers.
func (m *Memory) Calls() []Call {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.calls)
}

// answer runs a call and logs how it was answered.
func answer[T any](m *Memory, call Call, do func() (T, error)) (T, error) {
	var result T
	err := m.underWay.Do(func() (err error) {
		result, err = do()
		return err
	})
	call.Outcome, call.At = "ok", time.Now()
	if err != nil {
		result = *new(T)
		err = fmt.Errorf("%s %q: %w", call.Kind, call.ID, err)
		call.Outcome = err.Error()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, call)
	return result, err
}

// wait sleeps for the latency that of picks, and while the store hangs. It
// holds no lock, so that virtual time can pass.
func (m *Memory) wait(ctx context.Context, of func(faults) time.Duration) error {
	m.mu.Lock()
	f := m.faults
	m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	latency := of(f)
	if latency <= 0 {
		return nil
	}
	timer := time.NewTimer(latency)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func writing(f faults) time.Duration { return f.writeLatency }
func reading(f faults) time.Duration { return f.readLatency }

// write runs do under the lock, with the faults that befall writes.
func write[T any](ctx context.Context, m *Memory, call Call, do func() (T, error)) (result T, err error) {
	if err := m.wait(ctx, writing); err != nil {
		return result, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if use(&m.faults.failWrites) {
		return result, ErrWrite
	}
	if m.RejectNUL && strings.Contains(call.Text, "\x00") {
		return result, ErrNUL
	}
	if rival := m.faults.rivals[call.ID]; rival != nil && m.rows[call.ID] != nil {
		delete(m.faults.rivals, call.ID)
		m.edit(call.ID, rival)
	}
	if result, err = do(); err == nil && use(&m.faults.loseAcks) {
		err = ErrAckLost
	}
	return result, err
}

// read runs do under the lock, with the faults that befall reads.
func read[T any](ctx context.Context, m *Memory, do func() (T, error)) (result T, err error) {
	if err := m.wait(ctx, reading); err != nil {
		return result, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if use(&m.faults.failReads) {
		return result, ErrRead
	}
	return do()
}

// readBack is the second half of an append that took effect: the confirmation.
func (m *Memory) readBack(ctx context.Context) error {
	m.mu.Lock()
	unreadable := m.faults.failReads > 0
	m.mu.Unlock()
	if unreadable {
		return ErrRead
	}
	return m.wait(ctx, reading)
}

// use takes one of n faults, if any are left.
func use(n *int) bool {
	if *n <= 0 {
		return false
	}
	*n--
	return true
}
