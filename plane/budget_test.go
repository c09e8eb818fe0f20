package plane_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

// budgeted is a scene whose text must fit into so many bytes, of which it keeps
// so many durable units in any case.
func budgeted(t *testing.T, limit, keep int64, change func(*scene, *plane.Config)) (*scene, *plane.Budget) {
	t.Helper()
	b := plane.KeepingBudget(limit, keep)
	s := newScene(t, func(s *scene, c *plane.Config) {
		c.Budget = b
		if change != nil {
			change(s, c)
		}
	})
	return s, b
}

// unhurried makes a stream's checkpoints wait for their interval.
func unhurried(_ *scene, c *plane.Config) { c.Policy.Units = 1 << 20 }

// openOther opens another stream of the same budget, on a store of its own.
func openOther(t *testing.T, b *plane.Budget) *plane.Stream {
	t.Helper()
	cfg := plane.Config{Store: storetest.NewMemory(), Budget: b, Policy: plane.DefaultPolicy()}
	unhurried(nil, &cfg)
	s, err := plane.Open(t.Context(), cfg, plane.Claim{ID: "m2", Node: "n/1"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wantUsed checks that the budget counts what the stream holds.
func (s *scene) wantUsed(b *plane.Budget) {
	s.t.Helper()
	if got, want := b.Used(), s.Weight(); got != want {
		s.t.Errorf("%d bytes are counted, the text takes %d", got, want)
	}
}

func TestTheBudgetCountsWhatTextsTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := budgeted(t, 1<<40, 10, nil)
		for i := range 3000 {
			s.push(fmt.Sprint("ab漢😀", i))
			s.wantUsed(b)
		}
		if used, bytes := b.Used(), int64(len(s.pushed)); used < bytes || used > 2*bytes {
			t.Errorf("%d bytes are counted for %d of text", used, bytes)
		}
		s.after(time.Minute)
		s.wantUsed(b)
		whole := b.Used()
		s.Trim()
		s.wantUsed(b)
		if b.Used() >= whole {
			t.Errorf("a trim left %d of %d bytes", b.Used(), whole)
		}
		if _, err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.wantUsed(b)
		for range 2 {
			s.Retire()
			s.Evict()
			if b.Used() != 0 {
				t.Errorf("%d bytes are counted when nothing is hosted", b.Used())
			}
		}
	})
}

func TestAnOpenThatFailsCountsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, store := plane.NewBudget(1), storetest.NewMemory()
		store.FailWrites(100)
		if _, err := plane.Open(t.Context(), plane.Config{Store: store, Budget: b}, plane.Claim{ID: "m1", Node: "n/1"}); err == nil {
			t.Fatal("open should fail")
		}
		if b.Used() != 0 {
			t.Errorf("%d bytes", b.Used())
		}
	})
}

func TestTextIsKeptWholeWithinTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := budgeted(t, 1<<20, 10, nil)
		s.push(strings.Repeat("0123456789", 10_000))
		s.after(time.Second)
		if _, from, st := s.Snapshot(); from != 0 || st.Durable != st.Seq {
			t.Errorf("kept from %d, %+v", from, st)
		}
	})
}

func TestAStreamOverTheBudgetGivesUpWhatIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := budgeted(t, 4000, 10, unhurried)
		behind, near, tip := s.Join(0), s.Join(19_995), s.Join(0)
		s.push(strings.Repeat("😀0123456789", 1666) + "12345678")
		take(tip)
		s.after(time.Second)
		if text, from, st := s.Snapshot(); st.Durable != 20_000 || from != 19_990 || text != "9"+s.pushed[len(s.pushed)-9:] && len(text) != 10 {
			t.Errorf("kept %q from %d, %+v", text, from, st)
		}
		s.wantUsed(b)
		if b.Exceeded() {
			t.Errorf("%d bytes are left", b.Used())
		}
		if got := take(behind); got.last.Kind != plane.KindStale || got.last.FloorSeq != 19_990 || got.last.DurableSeq != 20_000 {
			t.Errorf("who is behind was told %+v", got.last)
		}
		take(near) // joined at the beginning, since there was no more
		if got := s.join(19_995); got.text != s.pushed[len(s.pushed)-5:] {
			t.Errorf("who is near read %q", got.text)
		}
		s.push("more")
		if got := take(tip); got.text != "more" {
			t.Errorf("who is at the tip read %q, %+v", got.text, got.last)
		}
		if _, err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.wantSealed(plane.StatusComplete) // S: the whole text, of which memory held the end
		if got := take(tip); got.last.Kind != plane.KindEnd || got.last.Seq != 20_004 {
			t.Errorf("who is at the tip was told %+v", got.last)
		}
	})
}

// P, H: what the store does not have yet is never given up.
func TestWhatIsNotDurableStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := budgeted(t, 100, 0, nil)
		s.store.FailWrites(1000)
		s.push(strings.Repeat("outstanding ", 1000))
		s.after(time.Minute)
		s.Trim()
		if text, from, _ := s.Snapshot(); from != 0 || text != s.pushed {
			t.Errorf("kept from %d", from)
		}
		s.store.Clear()
		s.after(time.Minute)
		if _, from, st := s.Snapshot(); from != st.Seq || b.Used() != 0 {
			t.Errorf("kept from %d of %+v, %d bytes", from, st, b.Used())
		}
	})
}

func TestTheLastDeltaMayBeRepeatedHoweverMuchWasGivenUp(t *testing.T) {
	for name, delta := range map[string]string{
		"short": "a few words", "as long as what is kept": strings.Repeat("k", 100),
		"long": strings.Repeat("0123456789", 1000), "long, and not ASCII": strings.Repeat("größe 😀", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := budgeted(t, 1, 100, nil)
				s.push(strings.Repeat("before ", 1000))
				from := s.State().Seq
				at := func(from int64, delta string) error { return s.PushAt(t.Context(), from, delta) }
				if err := at(from, delta); err != nil {
					t.Fatal(err)
				}
				s.pushed += delta
				s.after(time.Minute)
				seq := s.State().Seq
				if _, floor, _ := s.Snapshot(); floor != seq-100 {
					t.Fatalf("kept from %d of %d", floor, seq)
				}
				if err := at(from, delta); err != nil {
					t.Errorf("the repeat: %v", err)
				}
				other := delta[:len(delta)-1] + "X"
				if err := at(from, other); !errors.Is(err, plane.ErrConflict) {
					t.Errorf("another text: %v", err)
				}
				if err := at(from-50, s.pushed[from-50:from]+delta); !errors.Is(err, plane.ErrConflict) && len(delta) > 50 {
					t.Errorf("below what is kept: %v", err)
				}
				s.push(" after")
				if s.State().Seq != seq+6 {
					t.Errorf("%d units, want %d", s.State().Seq, seq+6)
				}
				s.after(time.Minute)
				s.wantStored(s.pushed)
			})
		})
	}
}

func TestADeltaThatWasRefusedIsNoRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := budgeted(t, 1, 4, policy(func(p *plane.Policy) { p.MaxUnits = 100 }))
		long := strings.Repeat("l", 200)
		if err := s.PushAt(t.Context(), 0, long); !errors.Is(err, plane.ErrTooLong) {
			t.Fatal(err)
		}
		s.push(strings.Repeat("s", 90))
		s.after(time.Minute)
		if err := s.PushAt(t.Context(), 0, long); !errors.Is(err, plane.ErrConflict) {
			t.Errorf("answered %v", err)
		}
	})
}

// B: with the store down, what a node takes is bounded by its budget and a little
// for each stream, not by MaxOutstanding for each.
func TestAPushWaitsWhileTheBudgetIsExceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := budgeted(t, 100, 0, nil)
		s.store.FailWrites(1000)
		s.push(strings.Repeat("x", 512), "y") // one more than Units are outstanding then
		full := b.Used()
		waiting := make(chan error, 1)
		go func() { waiting <- s.Push(t.Context(), "waits") }()
		wantNone(t, "push", waiting)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Push(ctx, "in vain"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a push with a deadline answered %v", err)
		}
		if b.Used() != full {
			t.Errorf("%d bytes, %d before", b.Used(), full)
		}
		s.store.Clear()
		s.after(time.Minute)
		wantAnswer(t, "push", waiting, nil)
		s.pushed += "waits"
		s.after(time.Minute)
		s.wantStored(s.pushed)
	})
}

func TestAPushThatWaitsGoesOnWhenOthersMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := budgeted(t, 100_000, 0, nil)
		other := openOther(t, b)
		s.store.FailWrites(1000)
		s.push(strings.Repeat("x", 1000))
		if err := other.Push(t.Context(), strings.Repeat("o", 100_000)); err != nil {
			t.Fatal(err)
		}
		waiting := make(chan error, 1)
		go func() { waiting <- s.Push(t.Context(), "waits") }()
		wantNone(t, "push", waiting)
		if _, err := other.Flush(t.Context()); err != nil { // it gives up what is durable now
			t.Fatal(err)
		}
		wantAnswer(t, "push", waiting, nil)

		if err := other.Push(t.Context(), strings.Repeat("o", 200_000)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := other.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		other.Retire()
		if b.Used() != s.Weight() {
			t.Errorf("%d bytes are counted, %d are held", b.Used(), s.Weight())
		}
	})
}

func TestWhoWaitsForRoomIsToldOfTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := budgeted(t, 1, 0, policy(func(p *plane.Policy) { p.Retries = 0 }))
		s.store.FailWrites(1000)
		s.push(strings.Repeat("x", 1000))
		waiting := make(chan error, 1)
		go func() { waiting <- s.Push(t.Context(), "waits") }()
		wantNone(t, "push", waiting)
		s.store.Clear()
		if _, err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantAnswer(t, "push", waiting, plane.ErrClosed)
		s.wantSealed(plane.StatusComplete)
	})
}

func TestTheHookIsToldThatTheBudgetIsExceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		s, _ := budgeted(t, 1000, 0, func(_ *scene, c *plane.Config) { c.Hooks.Exceeded = func() { told++ } })
		s.push("within")
		if told != 0 {
			t.Error("told too early")
		}
		s.push(strings.Repeat("x", 1001))
		if told != 1 {
			t.Errorf("told %d times", told)
		}
	})
}

func TestWhoJoinedARetiredStreamReadsOn(t *testing.T) {
	for name, tt := range map[string]struct {
		act  func(*scene)
		want plane.Kind
	}{
		"if it is left in memory": {func(s *scene) { s.Retire() }, plane.KindEnd},
		"not if it is evicted":    {func(s *scene) { s.Evict() }, plane.KindStale},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, b := budgeted(t, 1<<20, 0, nil)
				s.push(strings.Repeat("text ", 10_000))
				c, tip := s.Join(0), s.Join(50_000)
				if _, err := s.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				tt.act(s)
				got := take(c)
				if got.last.Kind != tt.want || tt.want == plane.KindEnd && got.text != s.pushed {
					t.Errorf("read %d bytes and %+v", len(got.text), got.last)
				}
				if got := take(tip); got.last.Kind != plane.KindEnd {
					t.Errorf("who had all was told %+v", got.last)
				}
				if b.Used() != 0 {
					t.Errorf("%d bytes are held when the last reader has left", b.Used())
				}
				if got := s.join(0); got.last.Kind != plane.KindStale {
					t.Errorf("who comes after it was told %+v", got.last)
				}
			})
		})
	}
}

// I: a reader that takes its time costs itself.
func TestASlowReaderOfARetiredStreamDoesNotHoldItsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := budgeted(t, 100_000, 0, nil)
		s.push(strings.Repeat("text ", 15_000))
		c := s.Join(0)
		if _, err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.Retire()
		_, _, _ = c.Poll()
		if f, _, _ := c.Poll(); f.Kind != plane.KindChunk || b.Used() == 0 {
			t.Fatalf("read %+v with %d bytes in memory", f.Kind, b.Used())
		}
		other := openOther(t, b)
		if err := other.Push(t.Context(), strings.Repeat("o", 50_000)); err != nil {
			t.Fatal(err)
		}
		if f, _, _ := c.Poll(); f.Kind != plane.KindStale {
			t.Errorf("read %+v", f.Kind)
		}
		if b.Used() != other.Weight() {
			t.Errorf("%d bytes are counted, %d are held", b.Used(), other.Weight())
		}
	})
}

func TestAnAbandonedStreamGivesUpItsText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := budgeted(t, 1<<20, 0, nil)
		s.push("text that nobody stored")
		c := s.Join(0)
		s.store.Latency(time.Second, time.Second)
		answer := s.flushed()
		go func() {
			if err := s.Abandon(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		s.Retire()
		if b.Used() != 0 {
			t.Errorf("%d bytes are held", b.Used())
		}
		wantAnswer(t, "flush", answer, plane.ErrShort)
		if got := take(c); got.last.Kind != plane.KindAbsent {
			t.Errorf("the reader was told %+v", got.last)
		}
		s.after(time.Minute) // the round that was in flight ends
		s.wantStored("text that nobody stored")
	})
}
