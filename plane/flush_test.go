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

func TestAFlushWithNothingOutstandingAsksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		for want := range int64(2) {
			if n, err := s.Flush(s.ctx); n != want || err != nil {
				t.Errorf("flush answered %d, %v", n, err)
			}
			if calls := s.slices(); len(calls) != int(want) {
				t.Errorf("slices %v", calls)
			}
			if want == 0 {
				s.push("a")
				wantAnswer(t, "flush", s.flushed(), nil)
			}
		}
	})
}

func TestAFlushAnswersWhenTheStoreHoldsWhatWasPushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.store.Latency(20*time.Millisecond, 0)
		s.push("abc")
		flush := s.flushed()
		s.after(19 * time.Millisecond)
		wantNone(t, "flush", flush)
		s.after(time.Millisecond)
		wantAnswer(t, "flush", flush, nil)
		s.wantStored("abc")
	})
}

func TestFlushesOfTheSameTextShareARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.store.Latency(10*time.Millisecond, 0)
		s.push("abc")
		first, second := s.flushed(), s.flushed()
		s.after(10 * time.Millisecond)
		wantAnswer(t, "the first", first, nil)
		wantAnswer(t, "the second", second, nil)
		s.after(time.Minute)
		s.wantSlices(3)
	})
}

func TestAFlushDuringARoundGetsOneOfItsOwnAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.store.Latency(50*time.Millisecond, 0)
		s.push("abc")
		first := s.flushed()
		s.after(10 * time.Millisecond)
		s.push("de", "f")
		second := s.flushed()
		s.after(40 * time.Millisecond)
		wantAnswer(t, "the first", first, nil)
		wantNone(t, "the second", second)
		s.after(50 * time.Millisecond)
		wantAnswer(t, "the second", second, nil)
		s.wantSlices(3, 6)
	})
}

func TestAFlushThatFailsTellsBothLengths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.push("abc")
		wantAnswer(t, "the first", s.flushed(), nil)
		s.push("de")
		s.store.FailWrites(4)
		n, err := s.Flush(s.ctx)
		var short *plane.ShortError
		if !errors.As(err, &short) || short.Durable != 3 || short.Produced != 5 || !errors.Is(err, storetest.ErrWrite) || n != 3 {
			t.Errorf("flush answered %d, %v", n, err)
		}
	})
}

func TestAFlushThatCameAfterAFailingRoundBeganWaitsForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.store.FailWrites(4)
		s.push("abc")
		early := s.flushed()
		s.after(time.Millisecond)
		s.push("de")
		later := s.flushed()
		s.after(349 * time.Millisecond)
		wantAnswer(t, "the early one", early, plane.ErrShort)
		wantAnswer(t, "the later one", later, nil)
		s.wantSlices(3, 3, 3, 3, 5)
	})
}

func TestAFlushEndsWithItsContextAndTheCheckpointGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.store.Latency(time.Second, 0)
		s.push("abc")
		ctx, cancel := context.WithTimeout(s.ctx, time.Millisecond)
		defer cancel()
		if n, err := s.Flush(ctx); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("flush answered %d, %v", n, err)
		}
		s.after(time.Second)
		s.wantStored("abc")
	})
}

func TestAFlushAfterAFailedSealFailsWithoutTrying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.push("abc")
		wantAnswer(t, "the first", s.flushed(), nil)
		s.push("tail")
		s.store.FailWrites(4)
		if _, err := s.Close(s.ctx); !errors.Is(err, plane.ErrShort) {
			t.Fatalf("close answered %v", err)
		}
		calls := len(s.store.Calls())
		n, err := s.Flush(s.ctx)
		var short *plane.ShortError
		if n != 3 || !errors.As(err, &short) || short.Durable != 3 || short.Produced != 7 {
			t.Errorf("flush answered %d, %v", n, err)
		}
		s.after(time.Hour)
		if again := len(s.store.Calls()); again != calls {
			t.Errorf("%d more calls of the store", again-calls)
		}
	})
}

func TestAFlushThatWaitsIsAnsweredByTheSeal(t *testing.T) {
	for name, tt := range map[string]struct {
		fails int // writes, after the round that is in flight
		want  error
	}{
		"that commits":      {0, nil},
		"that never does":   {4, plane.ErrShort},
		"that does at last": {3, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil)
				s.store.Latency(20*time.Millisecond, 0)
				s.push("abc")
				first := s.flushed()
				s.push("def")
				second := s.flushed()
				closed := s.closed()
				s.after(20 * time.Millisecond)
				wantAnswer(t, "the first", first, nil)
				s.store.FailWrites(tt.fails)
				s.after(time.Second)
				wantAnswer(t, "the second", second, tt.want)
				wantAnswer(t, "close", closed, tt.want)
			})
		})
	}
}

func TestASealThatTakesOverAFailingRoundAnswersItsFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.store.FailWrites(1)
		s.push("abc")
		flush := s.flushed() // the first attempt has failed, the next is due in 50 ms
		wantNone(t, "flush", flush)
		closed := s.closed()
		wantAnswer(t, "flush", flush, nil)
		wantAnswer(t, "close", closed, nil)
		s.wantSealed(plane.StatusComplete)
	})
}

func TestAFlushOfMoreThanASliceTakesSeveralRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, policy(func(p *plane.Policy) { p.MaxSlice = 1000 }))
		s.push(strings.Repeat("x", 999) + "😀" + strings.Repeat("y", 1500))
		wantAnswer(t, "flush", s.flushed(), nil)
		s.wantSlices(999, 1999, 2501) // none ends inside a pair
		s.wantStored(s.pushed)
	})
}

// Somebody who asks again and again does not make a store that is down be asked
// more often: a flush brings the next step forward, once, and else joins it.
func TestFlushesOfAStoreThatIsDownShareItsSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.store.FailWrites(1 << 30)
		var answers []<-chan error
		for range 600 {
			s.push("x")
			answers = append(answers, s.flushed())
			s.after(100 * time.Millisecond)
		}
		if n := len(s.slices()); n < 8 || n > 20 {
			t.Errorf("%d attempts in a minute", n)
		}
		s.after(30 * time.Second) // the longest step
		for i, answer := range answers {
			wantAnswer(t, fmt.Sprint("flush ", i), answer, plane.ErrShort)
		}
		s.store.Clear()
		last := s.flushed()
		s.after(30 * time.Second)
		wantAnswer(t, "the flush of a store that is back", last, nil)
		s.wantStored(s.pushed)
	})
}

func TestAFlushAfterAFailedRoundTriesOnceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.store.FailWrites(5)
		s.push(strings.Repeat("x", 512))
		s.after(350 * time.Millisecond)
		wantAnswer(t, "the first", s.flushed(), plane.ErrShort)
		s.wantSlices(512, 512, 512, 512, 512)
		second := s.flushed()
		s.after(749 * time.Millisecond) // the second step is 1.5 s, less its jitter
		wantNone(t, "the second", second)
		s.after(751 * time.Millisecond)
		wantAnswer(t, "the second", second, nil)
		s.wantSlices(512, 512, 512, 512, 512, 512)
	})
}
