package plane_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

// follower hashes what a reader gets, and checks each frame.
type follower struct {
	sum hash.Hash
	at  int64
	bad error
}

func newFollower() *follower { return &follower{sum: sha256.New()} }

func (r *follower) take(f plane.Frame) {
	switch {
	case f.Kind == plane.KindOpen:
		r.at = f.From
	case f.Kind != plane.KindChunk:
	case f.From != r.at, f.Seq-f.From != plane.Units(f.Text), len(f.Text) > plane.MaxChunk, !utf8.ValidString(f.Text):
		r.bad = fmt.Errorf("after %d came a chunk %d..%d of %d bytes", r.at, f.From, f.Seq, len(f.Text))
	default:
		r.sum.Write([]byte(f.Text))
		r.at = f.Seq
	}
}

// want checks that all was got.
func (r *follower) want(t *testing.T, name string, e expected) {
	t.Helper()
	if got := hex.EncodeToString(r.sum.Sum(nil)); r.bad != nil || r.at != e.Units || got != e.SHA256 {
		t.Errorf("%s got %d units with hash %s, want %d and %s: %v", name, r.at, got, e.Units, e.SHA256, r.bad)
	}
}

// A burst of 40,000 small deltas within a second loses nothing for a reader that
// keeps up, one that is slow, one that pauses, and one that comes late.
func TestABurstLosesNoReader(t *testing.T) {
	const name = "33-burst-backlog"
	e := expectedOf(t, name)
	var plan struct{ Count int }
	if err := json.Unmarshal(input(t, name, "plan.json"), &plan); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		var reading sync.WaitGroup
		follow := func(before time.Duration, each func(plane.Frame)) *follower {
			r := newFollower()
			c := s.Join(0)
			reading.Go(func() {
				time.Sleep(before)
				for f, err := range c.Frames(s.ctx) {
					if err != nil {
						r.bad = err
						return
					}
					r.take(f)
					each(f)
				}
			})
			return r
		}
		atOnce := func(plane.Frame) {}
		readers := map[string]*follower{
			"a quick reader":            follow(0, atOnce),
			"one that pauses for 3 s":   follow(3*time.Second, atOnce),
			"one at 50 KiB a second":    follow(0, func(f plane.Frame) { time.Sleep(time.Duration(len(f.Text)) * time.Second / 51200) }),
			"one that pauses every 5th": follow(0, func(f plane.Frame) { time.Sleep(time.Duration(f.Seq%5/4) * time.Second) }),
		}
		for i := range plan.Count {
			if i == plan.Count/2 {
				readers["one that comes late"] = follow(0, atOnce)
			}
			if err := s.Push(s.ctx, fmt.Sprintf("%05d ", i)); err != nil {
				t.Fatal(err)
			}
			if i%40 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		if _, err := s.Close(s.ctx); err != nil {
			t.Fatal(err)
		}
		reading.Wait()
		for who, r := range readers {
			r.want(t, who, e)
		}
		r, _ := s.store.Row("m1")
		e.wantText(t, r.Body)
	})
}

// hugeText is the 12 MB of the recorded case.
func hugeText(t *testing.T) (name, text string) {
	t.Helper()
	name = "50-huge-replay"
	var plan struct {
		Unit   string
		Repeat int
	}
	if err := json.Unmarshal(input(t, name, "plan.json"), &plan); err != nil {
		t.Fatal(err)
	}
	return name, strings.Repeat(plan.Unit, plan.Repeat)
}

// 50 joins of a 12 MB text read the stream's own memory: what they allocate is
// a small part of one copy.
func TestReplaysHoldNoCopies(t *testing.T) {
	name, text := hugeText(t)
	e := expectedOf(t, name)
	policy := plane.DefaultPolicy()
	policy.MaxOutstanding = 64 << 20
	s, err := plane.Open(t.Context(), plane.Config{Store: storetest.NewMemory(), Policy: policy}, plane.Claim{ID: "m1", Node: "n/1"})
	if err != nil {
		t.Fatal(err)
	}
	for rest := text; rest != ""; {
		n := min(len(rest), 96)
		for n < len(rest) && !utf8.RuneStart(rest[n]) {
			n++
		}
		if err := s.Push(t.Context(), rest[:n]); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if _, err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	const joins = 50
	cursors := make([]*plane.Cursor, joins)
	for i := range cursors {
		cursors[i] = s.Join(0)
	}
	got := make([]int64, joins)
	before := allocated()
	for live := joins; live > 0; { // all at once, a frame each in turn
		for i, c := range cursors {
			if f, ok, _ := c.Poll(); ok {
				got[i] = max(got[i], f.Seq)
				if f.Terminal() {
					live--
				}
			}
		}
	}
	if grown := allocated() - before; grown > 1<<20 {
		t.Errorf("%d readers took %d bytes", joins, grown)
	}
	for i, at := range got {
		if at != e.Units {
			t.Errorf("reader %d got to %d of %d", i, at, e.Units)
		}
	}
	r := newFollower()
	for f, err := range s.Join(0).Frames(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		r.take(f)
	}
	r.want(t, "a reader", e)
}

// allocated is how many bytes were allocated so far, whether or not they are
// free again.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// heap is how many bytes are in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// 100,000 readers that wait for the next delta, behind a text or at its tip, cost
// bytes in the hundreds each.
func TestAHundredThousandWaitingReadersFitIn100MiB(t *testing.T) {
	s, err := plane.Open(t.Context(), plane.Config{Store: storetest.NewMemory()}, plane.Claim{ID: "m1", Node: "n/1"})
	if err != nil {
		t.Fatal(err)
	}
	push := func(text string) {
		if err := s.Push(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	push(strings.Repeat("x", 1000))
	before := heap()
	cursors := make([]*plane.Cursor, 100_000)
	for i := range cursors {
		cursors[i] = s.Join(int64(i % 1001))
		for range i % 3 { // some have not begun, some lag, some are at the tip
			cursors[i].Poll()
		}
	}
	for range 1000 {
		push("delta")
	}
	if grown := int64(heap()) - int64(before); grown > 100<<20 {
		t.Errorf("%d MiB for %d readers", grown>>20, len(cursors))
	} else {
		t.Logf("%d bytes a reader", grown/int64(len(cursors)))
	}
	if n := s.State().Readers; n != len(cursors) {
		t.Errorf("%d readers", n)
	}
	if _, err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, c := range cursors {
		at := int64(0)
		for f, ok, _ := c.Poll(); ok; f, ok, _ = c.Poll() {
			at = max(at, f.Seq)
			if f.Kind == plane.KindEnd {
				at = -f.Seq
			}
		}
		if at != -6000 {
			t.Fatalf("reader %d ended at %d", i, at)
		}
	}
}
