package plane_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

func TestHowAStreamEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		seal func(context.Context, *scene) (plane.Ending, error)
		want plane.Ending
	}{
		"a close is complete": {
			func(ctx context.Context, s *scene) (plane.Ending, error) { return s.Close(ctx) },
			plane.Ending{Status: plane.StatusComplete, Seq: 3},
		},
		"a close after a cancel is cancelled": {
			func(ctx context.Context, s *scene) (plane.Ending, error) { s.Cancel(); return s.Close(ctx) },
			plane.Ending{Status: plane.StatusCancelled, Seq: 3},
		},
		"a close with the flag in the row is cancelled": {
			func(ctx context.Context, s *scene) (plane.Ending, error) {
				s.store.Edit("m1", func(r *storetest.Row) { r.Cancel = true })
				return s.Close(ctx)
			},
			plane.Ending{Status: plane.StatusCancelled, Seq: 3},
		},
		"a failure is an error": {
			func(ctx context.Context, s *scene) (plane.Ending, error) { return s.Fail(ctx, "boom") },
			plane.Ending{Status: plane.StatusError, Seq: 3, Error: "boom", HasError: true},
		},
		"a failure without words is one too": {
			func(ctx context.Context, s *scene) (plane.Ending, error) { return s.Fail(ctx, "") },
			plane.Ending{Status: plane.StatusError, Seq: 3, HasError: true},
		},
		"a failure after a cancel is an error": {
			func(ctx context.Context, s *scene) (plane.Ending, error) { s.Cancel(); return s.Fail(ctx, "boom") },
			plane.Ending{Status: plane.StatusError, Seq: 3, Error: "boom", HasError: true},
		},
		"an interruption is interrupted": {
			func(ctx context.Context, s *scene) (plane.Ending, error) { return s.Interrupt(ctx) },
			plane.Ending{Status: plane.StatusInterrupted, Seq: 3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil)
				c := s.Join(0)
				defer c.Close()
				s.push("abc")
				if got, err := tt.seal(s.ctx, s); err != nil || got != tt.want {
					t.Errorf("answered %+v, %v, want %+v", got, err, tt.want)
				}
				s.wantSealed(tt.want.Status)
				got := take(c)
				if f := got.last; got.text != "abc" || got.durable != 0 || f.Kind != plane.KindEnd || f.Seq != 3 ||
					f.Status != tt.want.Status || f.Error != tt.want.Error || f.HasError != tt.want.HasError {
					t.Errorf("a reader got %q and %+v", got.text, f)
				}
				r, _ := s.store.Row("m1")
				if r.Error != tt.want.Error || r.HasError != tt.want.HasError {
					t.Errorf("the row says %q, %v", r.Error, r.HasError)
				}
				synctest.Wait()
				if len(s.ended) != 1 || s.ended[0] != tt.want {
					t.Errorf("the hook was told %+v", s.ended)
				}
			})
		})
	}
}

func TestTheFirstSealDecidesAndAllGetItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.push("abc")
		s.store.Latency(10*time.Millisecond, 0)
		failed := make(chan plane.Ending, 1)
		go func() {
			e, _ := s.Fail(s.ctx, "boom")
			failed <- e
		}()
		synctest.Wait()
		second, err := s.Close(s.ctx)
		third, err3 := s.Interrupt(s.ctx)
		if first := <-failed; second != first || third != first || first.Status != plane.StatusError || err != nil || err3 != nil {
			t.Errorf("answered %+v, %+v, %+v; %v, %v", first, second, third, err, err3)
		}
		if n := s.seals(); n != 1 {
			t.Errorf("%d seals", n)
		}
	})
}

// seals counts how often the store was asked to seal.
func (s *scene) seals() (n int) {
	for _, c := range s.store.Calls() {
		if c.Kind == "seal" {
			n++
		}
	}
	return n
}

func TestOfEndsThatRaceOneIsEverybodys(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, nil)
			c := s.Join(0)
			defer c.Close()
			s.push("one two three")
			ends := make([]plane.Ending, 5)
			var racing sync.WaitGroup
			for i := range ends {
				racing.Go(func() {
					switch i {
					case 0:
						s.Cancel()
						fallthrough
					case 1, 2:
						ends[i], _ = s.Close(s.ctx)
					case 3:
						ends[i], _ = s.Fail(s.ctx, "boom")
					case 4:
						ends[i], _ = s.Interrupt(s.ctx)
					}
				})
			}
			racing.Wait()
			got := take(c)
			for _, e := range ends {
				if e != ends[0] || e.Status != got.last.Status {
					t.Errorf("ends %+v, and a reader was told %+v", ends, got.last)
				}
			}
			s.wantSealed(ends[0].Status)
		})
	}
}

func TestASealFollowsTheCommitInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.store.Latency(30*time.Millisecond, 0)
		s.push(strings.Repeat("x", 512))
		s.after(10 * time.Millisecond)
		s.push("tail")
		closed := s.closed()
		s.after(20 * time.Millisecond)
		s.wantStored(s.pushed[:512])
		wantNone(t, "close", closed)
		s.after(30 * time.Millisecond)
		wantAnswer(t, "close", closed, nil)
		s.wantSealed(plane.StatusComplete)
		s.wantSlices(512)
	})
}

func TestASealGoesAtOnceWhenARoundFails(t *testing.T) {
	for name, wait := range map[string]time.Duration{
		"between its attempts":   60 * time.Millisecond,
		"in the pause after it":  5 * time.Second,
		"right after an attempt": 0,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil)
				s.store.FailWrites(1 << 30)
				s.push(strings.Repeat("x", 512))
				s.after(wait)
				s.store.Clear()
				begin := time.Now()
				if _, err := s.Close(s.ctx); err != nil || time.Since(begin) > 0 {
					t.Errorf("close answered %v after %s", err, time.Since(begin))
				}
				s.wantSealed(plane.StatusComplete)
			})
		})
	}
}

// A seal that can't reach the store still ends the stream, and says so.
func TestASealWithTheStoreDown(t *testing.T) {
	for name, tt := range map[string]struct {
		down func(*storetest.Memory)
		want error
		took time.Duration
	}{
		"that fails": {func(m *storetest.Memory) { m.FailWrites(1 << 30) }, storetest.ErrWrite, 350 * time.Millisecond},
		"that hangs": {func(m *storetest.Memory) { m.Hang(true) }, context.DeadlineExceeded, 4*20*time.Second + 350*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil)
				s.push("abc")
				wantAnswer(t, "flush", s.flushed(), nil)
				c := s.Join(0)
				defer c.Close()
				s.push("tail")
				tt.down(s.store)
				begin := time.Now()
				end, err := s.Close(s.ctx)
				took := time.Since(begin)
				var short *plane.ShortError
				if !errors.As(err, &short) || short.Durable != 3 || short.Produced != 7 || !errors.Is(err, tt.want) {
					t.Errorf("close answered %v", err)
				}
				if end.Status != plane.StatusInterrupted || end.Seq != 3 || !errors.Is(end.Err, plane.ErrShort) {
					t.Errorf("close answered %+v", end)
				}
				if took != tt.took {
					t.Errorf("close took %s, want %s", took, tt.took)
				}
				got := take(c)
				if f := got.last; got.text != "abctail" || f.Kind != plane.KindEnd || f.Status != plane.StatusInterrupted || f.Seq != 3 {
					t.Errorf("a reader got %q and %+v", got.text, f)
				}
				s.store.Clear()
				calls := len(s.store.Calls())
				if again, err2 := s.Close(s.ctx); again != end || err2 != err {
					t.Errorf("the second close answered %+v, %v", again, err2)
				}
				s.after(time.Hour)
				if n := len(s.store.Calls()); n != calls {
					t.Errorf("%d more calls of the store", n-calls)
				}
				if n := len(s.failures()); n != 1 {
					t.Errorf("%d reports", n)
				}
				if len(s.ended) != 1 || s.ended[0] != end {
					t.Errorf("the hook was told %+v", s.ended)
				}
			})
		})
	}
}

func TestAContextBoundsTheWaitAndNotTheSeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.push("abc")
		s.store.Latency(time.Second, 0)
		ctx, cancel := context.WithTimeout(s.ctx, time.Millisecond)
		defer cancel()
		if _, err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close answered %v", err)
		}
		s.after(time.Second)
		s.wantSealed(plane.StatusComplete)
		if end, err := s.Close(s.ctx); err != nil || end.Status != plane.StatusComplete {
			t.Errorf("the second close answered %+v, %v", end, err)
		}
	})
}

// A stream whose row is another's writes nothing more, and says so to all.
func TestALostRowEndsTheStreamHere(t *testing.T) {
	for name, took := range map[string]func(*storetest.Row){
		"to another token":        func(r *storetest.Row) { r.Token = "n/2/2" },
		"to a sweeper":            func(r *storetest.Row) { r.Status = plane.StatusInterrupted },
		"to a writer of its text": func(r *storetest.Row) { r.Seq = 99 },
	} {
		for _, noticedBy := range []string{"flush", "close", "checkpoint"} {
			if noticedBy == "close" && !strings.HasPrefix(name, "to another") && name != "to a sweeper" {
				continue // the token holds, and a seal writes the whole text
			}
			t.Run(name+", noticed by a "+noticedBy, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScene(t, nil)
					c := s.Join(0)
					defer c.Close()
					for _, delta := range []string{"ab", "c"} {
						s.push(delta)
						wantAnswer(t, "flush", s.flushed(), nil)
					}
					s.push("lost")
					s.store.Edit("m1", took)
					before, _ := s.store.Row("m1")
					switch noticedBy {
					case "flush":
						wantAnswer(t, "flush", s.flushed(), plane.ErrFenced)
					case "close":
						wantAnswer(t, "close", s.closed(), plane.ErrFenced)
					case "checkpoint":
						s.after(750 * time.Millisecond)
					}
					calls := len(s.store.Calls())
					if err := s.Push(s.ctx, "x"); !errors.Is(err, plane.ErrFenced) {
						t.Errorf("push answered %v", err)
					}
					if _, err := s.Flush(s.ctx); !errors.Is(err, plane.ErrFenced) {
						t.Errorf("flush answered %v", err)
					}
					if end, err := s.Close(s.ctx); !errors.Is(err, plane.ErrFenced) || end.Status != plane.StatusInterrupted {
						t.Errorf("close answered %+v, %v", end, err)
					}
					s.after(time.Hour)
					after, _ := s.store.Row("m1")
					if n := len(s.store.Calls()); n != calls || after.Seq != before.Seq || after.Status != before.Status || after.Body != "" {
						t.Errorf("%d more calls, the row is %s at %d", n-calls, after.Status, after.Seq)
					}
					got := take(c)
					if got.last.Kind != plane.KindStale || got.last.DurableSeq != 3 {
						t.Errorf("a reader was told %+v", got.last)
					}
					if got := s.join(0); len(got.frames) != 1 || got.last.Kind != plane.KindStale {
						t.Errorf("who comes later is told %+v", got.frames)
					}
					if len(s.ended) != 1 || !errors.Is(s.ended[0].Err, plane.ErrFenced) {
						t.Errorf("the hook was told %+v", s.ended)
					}
				})
			})
		}
	}
}

func TestAnAbandonedStreamWritesNothingAndAnswersAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.push("abc")
		wantAnswer(t, "flush", s.flushed(), nil)
		s.push("lost")
		c := s.Join(0)
		defer c.Close()
		s.store.Latency(time.Second, 0)
		flush := s.flushed()
		closed := s.closed()
		if err := s.Abandon(s.ctx); err != nil {
			t.Error(err)
		}
		wantAnswer(t, "flush", flush, plane.ErrClosed)
		wantAnswer(t, "close", closed, plane.ErrClosed)
		if got := take(c); got.last.Kind != plane.KindAbsent {
			t.Errorf("a reader was told %+v", got.last)
		}
		if err := s.Push(s.ctx, "x"); !errors.Is(err, plane.ErrClosed) {
			t.Errorf("push answered %v", err)
		}
		s.after(time.Hour)
		if r, _ := s.store.Row("m1"); r.Status != plane.StatusStreaming {
			t.Errorf("the row is %s", r.Status)
		}
	})
}
