package plane_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

func TestSettingsOfAPolicyThatCannotWorkAreRefused(t *testing.T) {
	for name, change := range map[string]func(*plane.Policy){
		"Units":          func(p *plane.Policy) { p.Units = 0 },
		"Interval":       func(p *plane.Policy) { p.Interval = 0 },
		"Retries":        func(p *plane.Policy) { p.Retries = -1 },
		"RetryDelay":     func(p *plane.Policy) { p.RetryDelay = 0 },
		"MaxBackoff":     func(p *plane.Policy) { p.MaxBackoff = 0 },
		"StoreTimeout":   func(p *plane.Policy) { p.StoreTimeout = 0 },
		"MaxSlice":       func(p *plane.Policy) { p.MaxSlice = 1 },
		"MaxOutstanding": func(p *plane.Policy) { p.MaxOutstanding = 0 },
		"MaxUnits":       func(p *plane.Policy) { p.MaxUnits = 0 },
		"CancelGrace":    func(p *plane.Policy) { p.CancelGrace = -1 },
		"MaxLag":         func(p *plane.Policy) { p.MaxLag = -1 },
	} {
		cfg := plane.Config{Store: storetest.NewMemory(), Policy: plane.DefaultPolicy()}
		change(&cfg.Policy)
		if err := cfg.Validate(); !errors.Is(err, plane.ErrConfig) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: answered %v", name, err)
		}
		if _, err := plane.Open(t.Context(), cfg, plane.Claim{ID: "m1", Node: "n/1"}); !errors.Is(err, plane.ErrConfig) {
			t.Errorf("%s: open answered %v", name, err)
		}
	}
	if err := (plane.Config{Store: storetest.NewMemory()}).Validate(); err != nil {
		t.Errorf("the zero policy is refused: %v", err)
	}
}

func TestACheckpointStartsAt512UnitsOrAfter750Milliseconds(t *testing.T) {
	for name, tt := range map[string]struct {
		units int
		after time.Duration
		want  bool
	}{
		"512 units at once":           {512, 0, true},
		"511 units not at once":       {511, 0, false},
		"511 units not after 749 ms":  {511, 749 * time.Millisecond, false},
		"511 units after 750 ms":      {511, 750 * time.Millisecond, true},
		"one unit after 750 ms":       {1, 750 * time.Millisecond, true},
		"more than a slice's minimum": {5000, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, func(_ *scene, c *plane.Config) { c.Policy = plane.Policy{} }) // the default
				time.Sleep(time.Hour)                                                           // the interval runs from the delta
				s.push(strings.Repeat("x", tt.units))
				s.after(tt.after)
				if stored := s.stored(); (stored == s.pushed) != tt.want || stored != "" && !tt.want {
					t.Errorf("stored %d of %d", len(stored), tt.units)
				}
			})
		})
	}
}

func TestTheIntervalRunsFromTheFirstUncommittedDelta(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		for range 15 {
			s.push("x")
			s.after(50 * time.Millisecond)
		}
		s.wantSlices(15)
		s.after(time.Hour) // and no round is idle
		s.wantSlices(15)
		s.push("y")
		s.after(749 * time.Millisecond)
		s.wantSlices(15)
		s.after(time.Millisecond)
		s.wantSlices(15, 16)
	})
}

func TestTextThatComesDuringACommitGoesAsOneSlice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.store.Latency(5*time.Second, 0)
		s.push(strings.Repeat("x", 512))
		for range 400 {
			s.push(strings.Repeat("y", 100))
			s.after(10 * time.Millisecond)
		}
		s.after(6 * time.Second)
		s.wantSlices(512, 40512)
		s.wantStored(s.pushed)
	})
}

func TestASlowStoreMeansFewerCheckpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, policy(func(p *plane.Policy) { p.Units = 4 }))
		s.store.Latency(5*time.Millisecond, 0)
		const deltas = 60
		for range deltas {
			s.push("abcd")
			s.after(time.Millisecond)
		}
		s.after(time.Second)
		if n := len(s.slices()); n >= deltas/4 {
			t.Errorf("%d slices for %d deltas", n, deltas)
		}
		s.wantStored(s.pushed)
	})
}

func TestAnIntervalThatPassesDuringARoundIsServedAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.store.Latency(time.Second, 0)
		s.push(strings.Repeat("x", 512), "tail")
		s.after(time.Second)
		s.after(time.Second)
		s.wantSlices(512, 516)
	})
}

func TestWhatExceedsASliceIsStoredInSeveralAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, policy(func(p *plane.Policy) { p.MaxSlice = 1000 }))
		s.push(strings.Repeat("x", 2100))
		s.wantSlices(1000, 2000, 2100)
		s.wantStored(s.pushed)
	})
}

func TestAFailingAppendIsRepeatedThreeTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		begin := time.Now()
		s.store.FailWrites(4)
		s.push(strings.Repeat("x", 512))
		early := s.flushed()
		s.after(349 * time.Millisecond)
		wantNone(t, "the flush", early)
		s.after(time.Millisecond)
		wantAnswer(t, "the flush", early, plane.ErrShort)
		s.after(750 * time.Millisecond)

		var at []time.Duration
		for _, c := range s.store.Calls() {
			if c.Kind == "append" {
				at = append(at, c.At.Sub(begin))
			}
		}
		ms := time.Millisecond
		if want := []time.Duration{0, 50 * ms, 150 * ms, 350 * ms, 1100 * ms}; !slices.Equal(at, want) {
			t.Errorf("attempts after %v, want %v", at, want)
		}
		failed := s.failures()
		if len(failed) != 1 || failed[0].Attempts != 4 || failed[0].From != 0 || failed[0].Seq != 512 ||
			!errors.Is(failed[0].Err, storetest.ErrWrite) || failed[0].StreamID != "m1" {
			t.Errorf("reported %+v", failed)
		}
		s.wantStored(s.pushed)
	})
}

func TestAfterAFailedRoundTheNextTriggerTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		c := s.Join(0)
		defer c.Close()
		s.store.FailWrites(4)
		s.push(strings.Repeat("x", 512))
		s.after(350 * time.Millisecond)
		s.push("more") // no delta is a trigger now
		s.after(749 * time.Millisecond)
		s.wantSlices(512, 512, 512, 512)
		s.after(time.Millisecond)
		s.wantSlices(512, 512, 512, 512, 516)
		s.wantStored(s.pushed)
		if got := take(c); got.text != s.pushed || got.durable != 516 {
			t.Errorf("a reader got %d units and %d durable", len(got.text), got.durable)
		}
	})
}

// While the store is down there is one attempt per backed-off step, however
// much is pushed, and none is larger than a slice.
func TestAStoreThatIsDownIsAskedAtABackedOffPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, policy(func(p *plane.Policy) { p.MaxOutstanding = 16 << 20 }))
		s.store.FailWrites(1 << 30)
		for range 10 * 60 * 20 { // ten minutes
			s.push(strings.Repeat("x", 100))
			s.after(50 * time.Millisecond)
		}
		attempts := s.slices()
		// Four at first, then after 0.75, 1.5, 3, 6, 12, 24 s and every 30 s, each
		// pause but the first shortened by up to a half.
		if n := len(attempts); n < 20 || n > 55 {
			t.Errorf("%d attempts in ten minutes", n)
		}
		if reports := len(s.failures()); reports != len(attempts)-3 {
			t.Errorf("%d reports of %d attempts", reports, len(attempts))
		}
		s.store.Clear()
		s.after(31 * time.Second)
		s.wantStored(s.pushed)
		for _, c := range s.store.Calls() {
			if n := int64(len(c.Text)); n > 256<<10 {
				t.Errorf("a slice of %d units", n)
			}
		}
		s.push(strings.Repeat("y", 512)) // and the pace is the usual one again
		s.wantStored(s.pushed)
	})
}

// Nobody writes to a row that is gone, and it never comes back by itself.
func TestADeletedRowEndsTheStreamHere(t *testing.T) {
	for _, noticedBy := range []string{"checkpoint", "flush", "close"} {
		t.Run("noticed by a "+noticedBy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil)
				c := s.Join(0)
				defer c.Close()
				s.push("abc")
				wantAnswer(t, "flush", s.flushed(), nil)
				s.push("tail")
				s.store.Delete("m1")
				switch noticedBy {
				case "checkpoint":
					s.after(750 * time.Millisecond)
				case "flush":
					wantAnswer(t, "flush", s.flushed(), plane.ErrNotFound)
				case "close":
					wantAnswer(t, "close", s.closed(), plane.ErrNotFound)
				}
				for what, err := range map[string]error{
					"push":  s.Push(s.ctx, "x"),
					"flush": <-s.flushed(),
					"close": <-s.closed(),
				} {
					if !errors.Is(err, plane.ErrFenced) || !errors.Is(err, plane.ErrNotFound) {
						t.Errorf("%s answered %v", what, err)
					}
				}
				if failed := s.failures(); len(failed) != 1 || failed[0].Attempts != 1 {
					t.Errorf("reported %+v", failed)
				}
				if got := take(c); got.last.Kind != plane.KindStale {
					t.Errorf("a reader was told %+v", got.last)
				}
				if len(s.ended) != 1 || s.ended[0].Seq != 3 || !errors.Is(s.ended[0].Err, plane.ErrFenced) {
					t.Errorf("the hook was told %+v", s.ended)
				}
				calls := len(s.store.Calls())
				s.after(time.Hour)
				if n := len(s.store.Calls()); n != calls {
					t.Errorf("%d more calls of the store", n-calls)
				}
			})
		})
	}
}

// A row that can't be read back need not be gone.
func TestARowThatIsMissedOnceIsLookedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.push("abc")
		row, _ := s.store.Row("m1")
		s.store.Delete("m1")
		s.store.FailReads(1)
		s.after(750 * time.Millisecond)
		s.store.Edit("m1", func(r *storetest.Row) { *r = row })
		s.after(50 * time.Millisecond)
		s.wantStored(s.pushed)
		if st := s.State(); st.Over || st.Durable != 3 {
			t.Errorf("the stream is %+v", st)
		}
	})
}

func TestAStoreThatHangsIsGivenUpAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.store.Hang(true)
		s.push(strings.Repeat("x", 512))
		s.after(21 * time.Second) // the append and its reading back, 10 s each
		s.store.Hang(false)
		s.after(10 * time.Second)
		s.wantStored(s.pushed)
		if st := s.State(); st.Durable != 512 {
			t.Errorf("%d durable", st.Durable)
		}
	})
}

// A slice that was given up may still reach the store: late, and never twice.
func TestALateCommitIsAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.store.FailWrites(4)
		s.store.FailReads(5)
		s.push(strings.Repeat("x", 512))
		s.after(350 * time.Millisecond)
		s.store.Edit("m1", func(r *storetest.Row) { // the first attempt, after all
			r.Seq, r.Chunks = 512, append(r.Chunks, plane.Chunk{Seq: 512, Text: s.pushed})
		})
		s.push("more")
		flush := s.flushed()
		s.after(350 * time.Millisecond)
		wantAnswer(t, "flush", flush, plane.ErrShort) // confirmed 512 of 516
		if st := s.State(); st.Durable != 512 {
			t.Errorf("%d durable", st.Durable)
		}
		flush = s.flushed()
		s.after(1500 * time.Millisecond) // the second step
		wantAnswer(t, "flush", flush, nil)
		s.wantStored(s.pushed)
		if _, err := s.Close(s.ctx); err != nil {
			t.Error(err)
		}
		s.wantSealed(plane.StatusComplete)
	})
}
