package plane_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
)

// The streams of both modes live random lives against a store that fails in
// every way, in virtual time, and are held to the contracts S, P, H, B and O by
// content after every step: see machine.Check. -rapid.checks asks for more lives
// than the default, -rapid.seed and the failure file for one again.

func TestStreamKeepsItsContractsWhateverHappensInTables(t *testing.T) {
	live(t, 600, true)
}

func TestStreamKeepsItsContractsWhateverHappensInCallbackMode(t *testing.T) {
	live(t, 500, false)
}

func live(t *testing.T, lives int, tables bool) {
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(fmt.Sprint(lives))
		defer f.Value.Set(f.DefValue)
	}
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			m := newMachine(t, tables)
			t.Repeat(m.actions())
			m.calmEnd(t)
		})
	})
}

// machine is a stream, its world, and what the oracle knows of both.
type machine struct {
	sys    *actor.System
	s      *plane.Stream
	w      *world
	policy plane.Policy
	retain int64 // callback mode
	budget *plane.Budget
	keep   int64 // durable units that stay whatever the budget says

	as       plane.ProducerEpoch // who resumed it last
	count    int                 // makes each piece of text another
	coming   string              // bytes that the producer has yet to push
	pending  string              // the bytes pushed last that wait for the next
	sent     []uint16            // received, as the producer counts
	produced []uint16            // received, as it must be seen
	lost     int64               // units that no text can hold, and became U+FFFD
	pushes   []push              // those of which the store may not have all

	troubled  bool     // a fault was injected
	slow      bool     // the store took its time
	rival     bool     // another took the row
	swept     bool     // and ended it
	moved     bool     // or just wrote into it
	frozen    []uint16 // the text stored then
	over      bool     // the stream takes no more
	abandoned bool
	state     plane.State // at the last check

	readers []*reader
	calls   sync.WaitGroup // those that nobody awaits

	mu       sync.Mutex // guards below
	failed   []string   // what these calls met
	final    plane.Status
	forced   time.Time    // the last flush or seal
	began    time.Time    // the last round
	lapsed   [2]time.Time // when it began and ended, if it failed
	hurried  bool         // it followed at once one that failed
	replaced int64
	ended    []plane.Ending
}

// push is where the text ended after a push, and when.
type push struct {
	seq int64
	at  time.Time
}

// newMachine draws the settings and opens the stream.
func newMachine(t *rapid.T, tables bool) *machine {
	m := &machine{policy: plane.Policy{
		Units:          rapid.SampledFrom([]int64{4, 16, 64, 1_000_000}).Draw(t, "units"),
		Interval:       rapid.SampledFrom([]time.Duration{25, 100, 10_000}).Draw(t, "interval") * time.Millisecond,
		Retries:        rapid.IntRange(0, 2).Draw(t, "retries"),
		RetryDelay:     50 * time.Millisecond,
		MaxBackoff:     rapid.SampledFrom([]time.Duration{time.Second, 30 * time.Second}).Draw(t, "backoff"),
		StoreTimeout:   rapid.SampledFrom([]time.Duration{100, 10_000}).Draw(t, "timeout") * time.Millisecond,
		MaxSlice:       rapid.SampledFrom([]int64{2, 7, 256 << 10}).Draw(t, "slice"),
		MaxOutstanding: rapid.SampledFrom([]int64{8, 1 << 20, 1 << 20}).Draw(t, "outstanding"),
		MaxUnits:       rapid.SampledFrom([]int64{100, 64 << 20, 64 << 20}).Draw(t, "limit"),
		CancelGrace:    rapid.SampledFrom([]time.Duration{0, 2 * time.Second}).Draw(t, "grace"),
		MaxLag:         rapid.SampledFrom([]int64{0, 0, 40}).Draw(t, "lag"),
	}}
	m.w = &world{tables: tables, maxSlice: m.policy.MaxSlice}
	if limit := rapid.SampledFrom([]int64{-1, 0, 700, 5000}).Draw(t, "budget"); limit >= 0 {
		m.keep = rapid.SampledFrom([]int64{0, 8, 50}).Draw(t, "keep")
		m.budget = plane.KeepingBudget(limit, m.keep)
	}
	config := plane.Config{Policy: m.policy, Store: m.w, Budget: m.budget, Hooks: plane.Hooks{
		Ended: m.hasEnded, Checkpoint: m.hasTried, Replaced: m.hasReplaced,
	}}
	if !tables {
		m.retain = rapid.SampledFrom([]int64{0, 8, 3000, 64 << 10}).Draw(t, "retain")
		config.Store, config.Commit, config.Retain = nil, m.w.commit, &m.retain
	}
	sys, err := actor.New(actor.Config{
		Plane: config, Node: "node/1", ProducerTimeout: -1,
		Authorize: func(context.Context, actor.Access) (bool, error) { return true, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	m.sys = sys
	t.Cleanup(m.stop)
	m.w.faults = rapid.SliceOfN(rapid.SampledFrom([]fault{none, fail, loseAck, late}), 0, 2).Draw(t, "open")
	faults := len(m.w.faults)
	m.s, err = sys.Open(t.Context(), plane.Claim{ID: "s"})
	m.calm()
	if err != nil && faults > m.policy.Retries {
		m.s, err = sys.Open(t.Context(), plane.Claim{ID: "s"})
	}
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return m
}

// stop ends all that runs, also of a life that failed.
func (m *machine) stop() {
	m.calm()
	for _, r := range m.readers {
		r.leave()
	}
	_ = m.sys.Close(context.Background())
	m.calls.Wait()
	m.w.later.Wait()
}

// calm ends the faults.
func (m *machine) calm() {
	m.w.alter(func() { m.w.faults, m.w.badReads, m.w.down, m.w.latency = nil, 0, false, 0 })
}

func (m *machine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":     m.Check,
		"push": m.push, "push more": m.push, "push on": m.push, "push at": m.pushAt, "push again": m.pushAt, "pump": m.pump, "resume": m.resume,
		"flush": m.flush, "flush later": m.flushLater,
		"time": m.pass, "time passes": m.pass, "much time": m.pass,
		"join": m.join, "join too": m.join, "read": m.read, "read on": m.read, "leave": m.leave,
		"cancel": m.cancel, "seal": m.seal, "trim": m.trim,
		"faults": m.faults, "store": m.trouble, "rival": m.takeover,
	}
}

// pass lets time go by.
func (m *machine) pass(t *rapid.T) {
	time.Sleep(rapid.SampledFrom([]time.Duration{5, 20, 60, 400, 900, 15_000}).Draw(t, "ms") * time.Millisecond)
}

// bound is longer than anything of ours may take with the policies drawn.
const bound = 10 * time.Minute

// flush asks and waits. It is over in a bounded time, whatever the store does.
func (m *machine) flush(t *rapid.T) {
	if err := m.flushNow(t.Context(), int64(len(m.produced))); err != nil {
		t.Fatal(err)
	}
}

// flushLater asks, and looks at the answer when it comes.
func (m *machine) flushLater(t *rapid.T) {
	aim := int64(len(m.produced))
	m.calls.Go(func() { m.report(m.flushNow(context.Background(), aim)) })
}

func (m *machine) flushNow(ctx context.Context, aim int64) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	m.force()
	durable, err := m.s.Flush(ctx)
	row, _, _, _ := m.w.snapshot()
	var short *plane.ShortError
	switch {
	case err == nil && (durable < aim || row.Seq < aim && !m.rival):
		return fmt.Errorf("flush of %d: durable is %d, stored %d", aim, durable, row.Seq)
	case err == nil:
		return nil
	case errors.As(err, &short) && short.Durable < aim && m.troubled:
		return nil
	case errors.Is(err, plane.ErrFenced) && m.rival:
		return nil
	}
	return fmt.Errorf("flush of %d: %d, %w", aim, durable, err)
}

// report keeps the error of a call that nobody awaits for the next check.
func (m *machine) report(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.failed = append(m.failed, err.Error())
	}
}

// hasEnded is a hook.
func (m *machine) hasEnded(_ *plane.Stream, e plane.Ending) {
	if e.Err != nil && m.w.saidEnded() {
		m.report(fmt.Errorf("the store said that the row has ended, the hook was told %w", e.Err))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = append(m.ended, e)
}

// unsealed reports whether the stream ended for its readers before it did in the
// store, where the system ends it later.
func (m *machine) unsealed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.ended) > 0 && m.ended[0].Err != nil
}

// hasReplaced is a hook.
func (m *machine) hasReplaced(_ string, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replaced += n
}

// hasTried is a hook. While the store is down no round follows another at
// once, unless somebody asks for one, and no two that follow each other: the
// pause is the interval, less its jitter.
func (m *machine) hasTried(c plane.Checkpoint) {
	m.mu.Lock()
	defer m.mu.Unlock()
	began, now := time.Now().Add(-c.Took), time.Now()
	if began.Before(m.began) {
		return // told after the one that followed
	}
	m.began = began
	pause := began.Sub(m.lapsed[1])
	hurried := !c.Seal && pause < m.policy.Interval/2
	if hurried && (m.hurried || m.forced.Before(m.lapsed[0])) {
		m.failed = append(m.failed, fmt.Sprintf("a round began %v after one that failed", pause))
	}
	m.hurried = hurried
	m.lapsed = [2]time.Time{}
	if c.Err != nil {
		m.lapsed = [2]time.Time{began, now}
	}
}

// force notes that somebody asks for a round now.
func (m *machine) force() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forced = time.Now()
}

// fenced reports whether the stream knows that its row is another's.
func (m *machine) fenced() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.ended) > 0 && errors.Is(m.ended[0].Err, plane.ErrFenced)
}

// cancel sets the flag in the row, or tells the stream.
func (m *machine) cancel(t *rapid.T) {
	if rapid.Bool().Draw(t, "flag") {
		m.w.alter(func() { m.w.row.Cancel = true })
	} else {
		m.s.Cancel()
	}
}

// seal asks for the end.
func (m *machine) seal(t *rapid.T) {
	how := rapid.SampledFrom([]string{"close", "fail", "interrupt", "drain"}).Draw(t, "how")
	if rapid.Bool().Draw(t, "wait") {
		m.sealNow(t.Context(), how)
		return
	}
	m.calls.Go(func() { m.sealNow(context.Background(), how) })
	synctest.Wait()
}

func (m *machine) sealNow(ctx context.Context, how string) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	m.force()
	m.mu.Lock()
	if m.final == "" {
		m.final = map[string]plane.Status{
			"close": plane.StatusComplete, "fail": plane.StatusError,
			"interrupt": plane.StatusInterrupted, "drain": plane.StatusInterrupted,
		}[how]
		if how == "close" && m.s.IsCancelled() {
			m.final = plane.StatusCancelled
		}
	}
	m.mu.Unlock()
	var e plane.Ending
	var err error
	switch how {
	case "close":
		e, err = m.s.Close(ctx)
	case "fail":
		e, err = m.s.Fail(ctx, "boom")
	case "interrupt":
		e, err = m.s.Interrupt(ctx)
	case "drain":
		err = m.sys.Drain(ctx)
		if _, hosted := m.sys.Stream("s"); err == nil && !hosted {
			return // another's, or over long ago
		}
		e.Seq = m.s.State().Durable
	}
	switch short := errors.Is(err, plane.ErrShort); {
	case err == nil && e.Seq != m.s.State().Seq:
		m.report(fmt.Errorf("%s: sealed at %d of %d", how, e.Seq, m.s.State().Seq))
	case err == nil:
	case short && m.troubled:
	case errors.Is(err, plane.ErrFenced) && m.rival:
	default:
		m.report(fmt.Errorf("%s: %w", how, err))
	}
}

// faults are what befalls the next writes.
func (m *machine) faults(t *rapid.T) {
	kinds := []fault{none, fail, fail, loseAck, loseAck, hang, late}
	if !m.w.tables {
		kinds = append(kinds, partial, partial, partial, liar)
	}
	faults := rapid.SliceOfN(rapid.SampledFrom(kinds), 1, 4).Draw(t, "faults")
	reads := rapid.IntRange(0, 3).Draw(t, "reads")
	answer := rapid.SampledFrom([]int64{0, 1, 5, 5, 100, -1}).Draw(t, "answer")
	m.troubled = true
	m.w.alter(func() { m.w.faults, m.w.badReads, m.w.answer = faults, reads, answer })
}

// trouble makes the store slow, or stops or starts it.
func (m *machine) trouble(t *rapid.T) {
	latency := rapid.SampledFrom([]time.Duration{0, 0, 5, 30, 130}).Draw(t, "latency") * time.Millisecond
	down := rapid.IntRange(0, 3).Draw(t, "down") == 0
	m.slow = m.slow || latency > 0
	m.troubled = m.troubled || down || latency >= m.policy.StoreTimeout
	m.w.alter(func() { m.w.latency, m.w.down = latency, down })
}

// takeover gives the row to another owner (O).
func (m *machine) takeover(t *rapid.T) {
	if !m.w.tables || rapid.Bool().Draw(t, "not yet") {
		t.Skip("no rival")
	}
	how := rapid.SampledFrom([]string{"owner", "sweeper", "stranger"}).Draw(t, "how")
	m.w.alter(func() {
		if m.rival || m.w.row.Status != plane.StatusStreaming {
			return
		}
		m.rival, m.swept, m.moved, m.w.lost = true, how == "sweeper", how == "stranger", true
		m.frozen = slices.Clone(m.w.text)
		switch how {
		case "owner":
			m.w.row.Token, m.w.row.Epoch = "other/1/2", 2
		case "sweeper":
			m.w.row.Status = plane.StatusInterrupted
		case "stranger": // who knows of no tokens
			m.w.row.Seq += 1 << 30
		}
	})
}
