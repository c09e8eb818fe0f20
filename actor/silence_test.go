package actor_test

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
)

func waiting(timeout time.Duration) func(*actor.Config) {
	return func(c *actor.Config) { c.ProducerTimeout = timeout }
}

// slack is how much longer than the timeout it may take.
func slack(timeout time.Duration) time.Duration { return max(time.Second, timeout/8) }

func TestAStreamWhoseProducerIsGoneIsSealed(t *testing.T) {
	for _, timeout := range []time.Duration{time.Millisecond, time.Second, 7 * time.Second, 0, time.Hour} {
		for name, last := range map[string]func(*plane.Stream) error{
			"opened":     func(*plane.Stream) error { return nil },
			"pushed":     func(s *plane.Stream) error { return s.Push(context.Background(), "a") },
			"resumed":    func(s *plane.Stream) error { _, err := s.Resume(""); return err },
			"kept alive": func(s *plane.Stream) error { return s.KeepAlive(plane.ProducerEpoch{Epoch: 1, Session: 1}) },
			"released":   func(s *plane.Stream) error { s.Hold()(); return nil },
		} {
			t.Run(fmt.Sprint(timeout, " ", name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newHost(t, waiting(timeout))
					if timeout == 0 {
						timeout = actor.DefaultProducerTimeout
					}
					other, err := h.Open(t.Context(), plane.Claim{ID: "other"})
					if err != nil {
						t.Fatal(err)
					}
					defer other.Hold()()
					time.Sleep(timeout/3 + 123*time.Microsecond)
					s, err := h.Open(t.Context(), plane.Claim{ID: "m1"})
					if err != nil {
						t.Fatal(err)
					}
					if name != "opened" {
						time.Sleep(timeout/2 + 45*time.Microsecond)
					}
					if err := last(s); err != nil {
						t.Fatal(err)
					}
					time.Sleep(timeout - time.Nanosecond)
					synctest.Wait()
					if st := s.State(); st.Over {
						t.Errorf("too early: %+v", st)
					}
					time.Sleep(slack(timeout))
					synctest.Wait()
					if st := s.State(); st.Status != plane.StatusInterrupted || st.Durable != st.Seq {
						t.Errorf("too late: %+v", st)
					}
					h.wantStored("m1", s.State().Seq, plane.StatusInterrupted)
					if other.State().Over {
						t.Error("the other one has ended, too")
					}
				})
			})
		}
	}
}

func TestAProducerThatIsThereKeepsItsStream(t *testing.T) {
	for name, there := range map[string]func(*testing.T, *plane.Stream){
		"pushes": func(t *testing.T, s *plane.Stream) {
			for range 100 {
				time.Sleep(59 * time.Second)
				push(t, s, "a")
			}
		},
		"repeats itself": func(t *testing.T, s *plane.Stream) {
			push(t, s, "a")
			for range 100 {
				time.Sleep(59 * time.Second)
				if err := s.PushAt(t.Context(), 0, "a"); err != nil {
					t.Error(err)
				}
			}
		},
		"pumps": func(t *testing.T, s *plane.Stream) {
			err := s.Pump(t.Context(), func(context.Context) iter.Seq2[string, error] {
				return func(yield func(string, error) bool) {
					for range 10 {
						time.Sleep(time.Hour)
						yield("a", nil)
					}
				}
			})
			if err != nil {
				t.Error(err)
			}
		},
		"holds it": func(_ *testing.T, s *plane.Stream) {
			defer s.Hold()()
			time.Sleep(24 * time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newHost(t, waiting(0)).open("m1", "")
				there(t, s)
				synctest.Wait()
				if st := s.State(); st.Over {
					t.Errorf("it is %+v", st)
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if st := s.State(); st.Status != plane.StatusInterrupted {
					t.Errorf("later it is %+v", st)
				}
			})
		})
	}
}

func TestAStreamMayWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHost(t, waiting(-1)).open("m1", "abc")
		time.Sleep(1000 * time.Hour)
		if s.State().Over {
			t.Error("it has ended")
		}
	})
}

func TestAnAdoptedStreamWaitsForItsProducerAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := newHosts(t, 2, waiting(0))
		hosts[0].open("m1", "abc")
		time.Sleep(50 * time.Second)
		hosts[0].handOver("m1")
		s := hosts[1].adopt("m1")
		time.Sleep(50 * time.Second)
		synctest.Wait()
		if s.State().Over {
			t.Error("too early")
		}
		time.Sleep(20 * time.Second)
		hosts[0].wantStored("m1", 3, plane.StatusInterrupted)
	})
}

// The producers of many streams go at once, and their store is slow: nobody else
// waits for it, and each is sealed in the end.
func TestManyProducersGoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, waiting(0))
		const many = 1000
		for n := range many {
			h.open(fmt.Sprint("m", n), "abc")
		}
		kept := h.open("kept", "abc")
		h.store.Latency(100*time.Millisecond, 0)
		for range 40 {
			time.Sleep(5 * time.Second)
			push(t, kept, "d")
		}
		h.wantCounts(1, 0)
		for n := range many {
			h.wantStored(fmt.Sprint("m", n), 3, plane.StatusInterrupted)
		}
		if kept.State().Over {
			t.Error("the one that has a producer was sealed, too")
		}
	})
}

func TestStreamsThatWaitHaveNoGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, waiting(0))
		before := runtime.NumGoroutine()
		for n := range 100 {
			h.open(fmt.Sprint("m", n), "")
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if got := runtime.NumGoroutine(); got > before+5 {
			t.Errorf("there are %d goroutines, were %d", got, before)
		}
	})
}
