package plane_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

func TestALostAnswerIsAbsorbedWithoutASecondAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.store.LoseAcks(1)
		s.push("abcd")
		wantAnswer(t, "flush", s.flushed(), nil)
		s.wantSlices(4)
		if failed := s.failures(); len(failed) > 0 {
			t.Errorf("reported %+v", failed)
		}
	})
}

func TestALostAnswerWhoseReadingBackFailsIsRepeatedInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.store.LoseAcks(1)
		s.store.FailReads(1)
		s.push("abcd")
		flush := s.flushed()
		s.after(50 * time.Millisecond)
		wantAnswer(t, "flush", flush, nil)
		s.wantSlices(4, 4)
		if r, _ := s.store.Row("m1"); len(r.Chunks) != 1 {
			t.Errorf("chunks %v", r.Chunks)
		}
	})
}

// The next slice starts where the store really is: with the length read back,
// or, if that can't be had, by being told how far it is.
func TestAfterALostAnswerTheNextSliceStartsWhereTheStoreIs(t *testing.T) {
	for name, tt := range map[string]struct {
		failReads int
		first     error // of the flush of "abcd"
		reported  int
		slices    []int64
	}{
		"read back":                   {0, nil, 0, []int64{4, 5}},
		"read back at the second try": {1, nil, 1, []int64{4, 5}}, // known by the round's last word
		"told by the next append":     {2, plane.ErrShort, 2, []int64{4, 5, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, policy(func(p *plane.Policy) { p.Retries = 0 }))
				c := s.Join(0)
				defer c.Close()
				s.store.LoseAcks(1)
				s.store.FailReads(tt.failReads)
				s.push("abcd")
				wantAnswer(t, "the first flush", s.flushed(), tt.first)
				s.wantStored("abcd")
				s.push("e")
				if tt.failReads == 2 {
					wantAnswer(t, "a flush", s.flushed(), plane.ErrShort)
				}
				last := s.flushed()
				s.after(1500 * time.Millisecond) // the second step
				wantAnswer(t, "the last flush", last, nil)
				s.wantSlices(tt.slices...)
				s.wantStored("abcde")
				if failed := s.failures(); len(failed) != tt.reported {
					t.Errorf("reported %+v", failed)
				}
				if got := take(c); got.text != "abcde" || got.durable != 5 {
					t.Errorf("a reader got %q and %d durable", got.text, got.durable)
				}
				if _, err := s.Close(s.ctx); err != nil {
					t.Error(err)
				}
				s.wantSealed(plane.StatusComplete)
			})
		})
	}
}

func TestAConfirmationShorterThanAskedSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, policy(func(p *plane.Policy) { p.Retries = 0 }))
		s.store.LoseAcks(1)
		s.store.FailReads(2)
		s.push("abcd")
		wantAnswer(t, "flush", s.flushed(), storetest.ErrAckLost)
		s.push("e")
		_, err := s.Flush(s.ctx)
		var short *plane.ShortError
		if !errors.As(err, &short) || short.Durable != 4 || short.Produced != 5 || !strings.Contains(err.Error(), "4 of 5") {
			t.Errorf("flush answered %v", err)
		}
		s.wantStored("abcd")
	})
}

func TestALostAnswerToASealIsNoFailure(t *testing.T) {
	for name, tt := range map[string]struct{ failReads, retries, seals int }{
		"read back at once":                   {0, 0, 1},
		"seen by the repeat, if it can't be":  {1, 1, 2},
		"seen by the third, which reads back": {2, 3, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, policy(func(p *plane.Policy) { p.Retries = tt.retries }))
				c := s.Join(0)
				defer c.Close()
				s.push("abc")
				s.store.LoseAcks(1)
				s.store.FailReads(tt.failReads)
				if end, err := s.Close(s.ctx); err != nil || end.Status != plane.StatusComplete || end.Seq != 3 {
					t.Errorf("close answered %+v, %v", end, err)
				}
				var seals int
				for _, call := range s.store.Calls() {
					if call.Kind == "seal" {
						seals++
					}
				}
				if seals != tt.seals {
					t.Errorf("%d seals, want %d", seals, tt.seals)
				}
				if got := take(c); got.text != "abc" || got.last.Status != plane.StatusComplete || got.last.Seq != 3 {
					t.Errorf("a reader got %q and %+v", got.text, got.last)
				}
				s.wantSealed(plane.StatusComplete)
			})
		})
	}
}

// Whatever is lost or refused, the stored text stays a prefix of what was
// pushed, never shrinks, and is whole at the end.
func TestStoredTextIsAPrefixThroughEveryMixOfFaults(t *testing.T) {
	for mix := range 1 << 6 {
		t.Run(fmt.Sprintf("mix %06b", mix), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, policy(func(p *plane.Policy) { p.Units, p.Retries, p.Interval = 4, mix&1, 100*time.Millisecond }))
				var longest int64
				for i := range 30 {
					if i%5 == 0 {
						s.store.FailWrites(mix >> 1 & 1)
						s.store.LoseAcks(mix >> 2 & 1)
						s.store.FailReads(mix >> 3 & 3)
						s.store.Latency(time.Duration(mix>>5&1)*30*time.Millisecond, 0)
					}
					s.push(string(rune('a'+i%26)) + "😀")
					s.after(20 * time.Millisecond)
					s.stored()
					if now := s.State().Durable; now < longest {
						t.Fatalf("%d durable after %d", now, longest)
					} else {
						longest = now
					}
				}
				s.store.Clear()
				if _, err := s.Close(s.ctx); err != nil {
					t.Fatal(err)
				}
				s.wantSealed(plane.StatusComplete)
			})
		})
	}
}
