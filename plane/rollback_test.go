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

// back sets the scene's row back to n units, as a standby does that had no more
// of it when it took over.
func (s *scene) back(n int64) {
	s.store.Edit("m1", func(r *storetest.Row) {
		r.Seq = n
		r.Chunks = slices.DeleteFunc(r.Chunks, func(c plane.Chunk) bool { return c.Seq > n })
	})
}

// committed pushes deltas each of which is durable before the next.
func (s *scene) committed(deltas ...string) {
	s.t.Helper()
	for _, delta := range deltas {
		s.push(delta)
		wantAnswer(s.t, "flush", s.flushed(), nil)
	}
}

// wentBack counts the rounds that were told that the store went back.
func (s *scene) wentBack() (n int) {
	for _, c := range s.failures() {
		if errors.Is(c.Err, plane.ErrWentBack) {
			n++
		}
	}
	return n
}

func TestWhatAStoreHasLostIsCommittedAgain(t *testing.T) {
	for name, to := range map[string]int64{"all of it": 0, "the last commits": 2} {
		for _, noticedBy := range []string{"a flush", "a checkpoint", "the end"} {
			t.Run(name+", noticed by "+noticedBy, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScene(t, nil)
					c := s.Join(0)
					defer c.Close()
					s.committed("ab", "c😀", "d")
					s.push("more")
					s.back(to)
					want := 1
					switch noticedBy {
					case "a flush":
						wantAnswer(t, "flush", s.flushed(), nil)
					case "a checkpoint":
						s.after(2 * time.Second)
					case "the end":
						want = 0 // it writes the whole text
					}
					if n := s.wentBack(); n != want {
						t.Errorf("%d rounds say that the store went back: %+v", n, s.failures())
					}
					if want > 0 {
						s.wantStored("abc😀dmore")
					}
					if end, err := s.Close(s.ctx); err != nil || end.Status != plane.StatusComplete {
						t.Errorf("close answered %+v, %v", end, err)
					}
					s.wantSealed(plane.StatusComplete)
					if got := take(c); got.text != s.pushed || got.last.Status != plane.StatusComplete || got.last.Seq != 10 {
						t.Errorf("a reader got %+v", got)
					}
				})
			})
		}
	}
}

// Nothing is said to be durable that the store has lost.
func TestAfterAStoreWentBackTheStateIsWhatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, policy(func(p *plane.Policy) { p.Retries = 0 }))
		s.committed("ab", "cd")
		s.back(2)
		s.push("e")
		s.after(750 * time.Millisecond)
		if st := s.State(); st.Durable != 2 || st.Status != plane.StatusStreaming {
			t.Errorf("%+v", st)
		}
		if got := s.join(0); got.frames[0].DurableSeq != 2 || got.text != "abcde" || got.durable != 2 {
			t.Errorf("who joins is told %+v", got)
		}
		wantAnswer(t, "flush", s.flushed(), nil)
		s.wantStored("abcde")
	})
}

func TestAStoreThatGoesBackEveryTimeIsAskedInSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.committed("ab", "cd")
		s.push("e")
		for range 60 {
			s.back(0)
			s.after(time.Second)
		}
		if n := len(s.slices()); n > 2+2*60 {
			t.Errorf("%d appends in a minute", n)
		}
		s.push("f")
		s.after(time.Minute)
		s.wantStored("abcdef")
	})
}

// A row of tables without tokens says nothing of whose it is: a length that fell
// may be that of another's stream.
func TestWithoutTokensALengthThatFellIsAnothers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, func(s *scene, _ *plane.Config) { s.store.NoTokens = true })
		s.committed("ab", "cd")
		s.back(2)
		s.push("e")
		wantAnswer(t, "flush", s.flushed(), plane.ErrFenced)
	})
}

func TestARowThatIsBackAtAnEarlierClaimIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, func(s *scene, _ *plane.Config) {
			s.store.Edit("m1", func(r *storetest.Row) { r.Status, r.Token, r.Epoch = plane.StatusInterrupted, "n/1/1", 1 })
		})
		s.committed("ab")
		s.store.Edit("m1", func(r *storetest.Row) {
			*r = storetest.Row{Status: plane.StatusStreaming, Token: "n/1/1", Epoch: 1}
		})
		s.push("c")
		_, err := s.Flush(s.ctx)
		if !errors.Is(err, plane.ErrFenced) || !errors.Is(err, plane.ErrWentBack) {
			t.Errorf("flush answered %v", err)
		}
	})
}

// trimmed is a scene whose stream keeps hardly any durable text.
func trimmed(t *testing.T) *scene {
	s := newScene(t, func(_ *scene, c *plane.Config) { c.Budget = plane.NewBudget(1) })
	for range 6 {
		s.committed(strings.Repeat("x", 4<<10))
	}
	if _, from, _ := s.Snapshot(); from < 8<<10 {
		t.Fatalf("text is kept from %d on", from)
	}
	return s
}

// wantShort checks that all are told that the stream ended at n, and that nothing
// goes on.
func (s *scene) wantShort(c *plane.Cursor, n int64, why string) {
	s.t.Helper()
	synctest.Wait()
	r, _ := s.store.Row("m1")
	if r.Status != plane.StatusInterrupted || r.Seq != n || plane.Units(r.Body) != n || !strings.Contains(r.Error, why) {
		s.t.Errorf("the row is %s at %d with %d units, error %q", r.Status, r.Seq, plane.Units(r.Body), r.Error)
	}
	if got := take(c); got.last.Kind != plane.KindEnd || got.last.Status != plane.StatusInterrupted || got.last.Seq != n || got.last.Error != r.Error {
		s.t.Errorf("a reader was told %+v", got.last)
	}
	if len(s.ended) != 1 || !errors.Is(s.ended[0].Err, plane.ErrTextLost) || s.ended[0].Seq != n {
		s.t.Errorf("the hook was told %+v", s.ended)
	}
	calls := len(s.store.Calls())
	s.after(time.Hour)
	if more := len(s.store.Calls()) - calls; more > 0 {
		s.t.Errorf("%d more calls", more)
	}
}

func TestAStreamWhoseTextOthersDeletedEndsWhereItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := trimmed(t)
		c := s.Join(s.State().Seq)
		defer c.Close()
		s.store.Edit("m1", func(r *storetest.Row) { r.Chunks = slices.Delete(r.Chunks, 1, 2) })
		if end, err := s.Close(s.ctx); !errors.Is(err, plane.ErrShort) || !errors.Is(err, plane.ErrTextLost) || end.Seq != 4<<10 {
			t.Errorf("close answered %+v, %v", end, err)
		}
		s.wantShort(c, 4<<10, "deleted")
		if n := s.seals(); n != 1 {
			t.Errorf("%d seals", n)
		}
	})
}

// What the store has lost is not in memory any more.
func TestATrimmedStreamEndsWhereTheStoreWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := trimmed(t)
		c := s.Join(s.State().Seq)
		defer c.Close()
		s.back(4 << 10)
		s.push("y")
		if _, err := s.Flush(s.ctx); !errors.Is(err, plane.ErrShort) {
			t.Errorf("flush answered %v", err)
		}
		s.wantShort(c, 4<<10, "lost")
		if err := s.Push(s.ctx, "z"); !errors.Is(err, plane.ErrClosed) || !errors.Is(err, plane.ErrWentBack) {
			t.Errorf("push answered %v", err)
		}
		if n := s.wentBack(); n != 1 {
			t.Errorf("%d rounds say that the store went back: %+v", n, s.failures())
		}
	})
}

// The same, of a stream whose end the store did not take at first.
func TestALateEndOfATextWithAHoleIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var repaired []plane.Row
		s := newScene(t, func(s *scene, c *plane.Config) {
			c.Budget = plane.NewBudget(1)
			c.Hooks.Repaired = func(_ string, r plane.Row) { repaired = append(repaired, r) }
		})
		for range 6 {
			s.committed(strings.Repeat("x", 4<<10))
		}
		s.store.Edit("m1", func(r *storetest.Row) { r.Chunks = slices.Delete(r.Chunks, 1, 2) })
		s.store.FailWrites(4)
		if _, err := s.Close(s.ctx); !errors.Is(err, storetest.ErrWrite) {
			t.Errorf("close answered %v", err)
		}
		for range 2 {
			if err := s.Reseal(); err != nil {
				t.Errorf("reseal answered %v", err)
			}
		}
		r, _ := s.store.Row("m1")
		if r.Status != plane.StatusInterrupted || r.Seq != 4<<10 || len(repaired) == 0 || repaired[0].Seq != 4<<10 {
			t.Errorf("the row is %s at %d, repaired %+v", r.Status, r.Seq, repaired)
		}
		if got := s.join(4 << 10); got.last.Kind == plane.KindEnd && got.last.Seq != 4<<10 {
			t.Errorf("who joins is told %+v", got.last)
		}
		lost := 0
		for _, c := range s.failures() {
			if errors.Is(c.Err, plane.ErrTextLost) {
				lost++
			}
		}
		if lost != 1 {
			t.Errorf("reported %+v", s.failures())
		}
	})
}
