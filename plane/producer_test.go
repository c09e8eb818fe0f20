package plane_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

// calls are all that a producer may ask for.
var calls = map[string]func(context.Context, *plane.Stream, plane.ProducerEpoch) error{
	"push": func(ctx context.Context, s *plane.Stream, as plane.ProducerEpoch) error {
		return s.PushAs(ctx, as, -1, "x")
	},
	"push at": func(ctx context.Context, s *plane.Stream, as plane.ProducerEpoch) error {
		return s.PushAs(ctx, as, s.State().Received, "x")
	},
	"pump": func(ctx context.Context, s *plane.Stream, as plane.ProducerEpoch) error {
		return s.PumpAs(ctx, as, -1, says("x"))
	},
	"pump at": func(ctx context.Context, s *plane.Stream, as plane.ProducerEpoch) error {
		return s.PumpAs(ctx, as, s.State().Received, says("x"))
	},
	"flush": func(ctx context.Context, s *plane.Stream, as plane.ProducerEpoch) error {
		_, err := s.FlushAs(ctx, as)
		return err
	},
	"keepalive": func(_ context.Context, s *plane.Stream, as plane.ProducerEpoch) error { return s.KeepAlive(as) },
	"close": func(ctx context.Context, s *plane.Stream, as plane.ProducerEpoch) error {
		_, err := s.CloseAs(ctx, as)
		return err
	},
	"fail": func(ctx context.Context, s *plane.Stream, as plane.ProducerEpoch) error {
		_, err := s.FailAs(ctx, as, "boom")
		return err
	},
	"interrupt": func(ctx context.Context, s *plane.Stream, as plane.ProducerEpoch) error {
		_, err := s.InterruptAs(ctx, as)
		return err
	},
}

func says(all ...string) func(context.Context) iter.Seq2[string, error] {
	return func(context.Context) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for _, d := range all {
				if !yield(d, nil) {
					return
				}
			}
		}
	}
}

func TestOnlyTheLatestProducerActsOnAStream(t *testing.T) {
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil)
				first := s.ProducerEpoch()
				if first != (plane.ProducerEpoch{Epoch: 1, Session: 1}) {
					t.Errorf("it begins as %v", first)
				}
				if err := call(t.Context(), s.Stream, plane.ProducerEpoch{Epoch: 1, Session: 2}); !errors.Is(err, plane.ErrProducerEpoch) || errors.Is(err, plane.ErrFenced) {
					t.Errorf("a later session was answered %v", err)
				}
				if err := call(t.Context(), s.Stream, plane.ProducerEpoch{Epoch: 2, Session: 1}); !errors.Is(err, plane.ErrProducerEpoch) {
					t.Errorf("a later epoch was answered %v", err)
				}
				now, err := s.Resume("")
				if err != nil || now != (plane.ProducerEpoch{Epoch: 1, Session: 2}) || s.ProducerEpoch() != now {
					t.Errorf("resumed as %v, %v", now, err)
				}
				before := s.State()
				if err := call(t.Context(), s.Stream, first); !errors.Is(err, plane.ErrSuperseded) {
					t.Errorf("the one before was answered %v", err)
				}
				if after := s.State(); after != before {
					t.Errorf("it became %+v", after)
				}
				if err := call(t.Context(), s.Stream, now); err != nil {
					t.Errorf("the one of now was answered %v", err)
				}
				if err := call(t.Context(), s.Stream, first); !errors.Is(err, plane.ErrSuperseded) {
					t.Errorf("afterwards the one before was answered %v", err)
				}
			})
		})
	}
}

func TestAnAttemptThatComesAfterALaterOneOfItsRunFencesNobody(t *testing.T) {
	by := func(instance string, n int64) plane.Attempt { return plane.Attempt{Instance: instance, Count: n} }
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.BegunBy(by("a", 2))
		s.BegunBy(by("a", 1))
		for _, step := range []struct {
			attempt plane.Attempt
			session int64 // 0 if it is refused
		}{
			{by("a", 1), 0}, {by("a", 2), 0}, {by("a", 3), 2}, {by("a", 3), 0}, {by("b", 1), 3}, {by("b", 1), 0},
			{by("a", 4), 4}, {plane.Attempt{}, 5}, {plane.Attempt{}, 6}, {by("a", 1), 7},
		} {
			before := s.ProducerEpoch()
			now, err := s.ResumeBy("", step.attempt)
			switch {
			case step.session > 0 && (err != nil || now.Session != step.session):
				t.Errorf("%+v resumed as %v, %v", step.attempt, now, err)
			case step.session == 0 && (!errors.Is(err, plane.ErrSuperseded) || s.ProducerEpoch() != before):
				t.Errorf("%+v was answered %v, and the producer is %v after %v", step.attempt, err, s.ProducerEpoch(), before)
			}
		}
	})
}

func TestNobodyInParticularIsNeverFenced(t *testing.T) {
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil)
				for range 3 {
					if _, err := s.Resume(""); err != nil {
						t.Fatal(err)
					}
				}
				if err := call(t.Context(), s.Stream, plane.ProducerEpoch{}); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAResumeEndsThePumpAndThePushThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, policy(func(p *plane.Policy) { p.MaxOutstanding = 4 }))
		s.store.Hang(true)
		first := s.ProducerEpoch()
		answers := make(chan error, 4)
		listens := func(ctx context.Context) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) { <-ctx.Done() }
		}
		for _, from := range []int64{-1, 0} {
			go func() { answers <- s.PumpAs(s.ctx, first, from, listens) }()
		}
		synctest.Wait()
		s.push("abcd")
		for _, from := range []int64{-1, 4} {
			go func() { answers <- s.PushAs(s.ctx, first, from, "e") }()
		}
		anybody := make(chan error, 1)
		go func() { anybody <- s.Push(s.ctx, "f") }()
		synctest.Wait()
		if len(answers)+len(anybody) > 0 {
			t.Fatal("nothing waits")
		}
		if _, err := s.Resume(""); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if err := <-answers; !errors.Is(err, plane.ErrSuperseded) {
				t.Errorf("answered %v", err)
			}
		}
		wantNone(t, "a push by nobody", anybody)
		s.pushed += "f"
		s.store.Clear()
		s.after(time.Minute)
		wantAnswer(t, "a push by nobody", anybody, nil)
		if st := s.State(); st.Seq != 5 || st.Over {
			t.Errorf("it is %+v", st)
		}
		if len(s.ended) > 0 {
			t.Errorf("it has ended: %+v", s.ended)
		}
	})
}

func TestAStreamIsResumedByItsProducerAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := plane.Open(t.Context(), plane.Config{Store: storetest.NewMemory()}, plane.Claim{ID: "m1", Node: "n/1", Producer: "app"})
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range []string{"", "app2"} {
			if _, err := s.Resume(other); !errors.Is(err, plane.ErrHeld) {
				t.Errorf("%q was answered %v", other, err)
			}
		}
		if now, err := s.Resume("app"); err != nil || now.Session != 2 {
			t.Errorf("answered %v, %v", now, err)
		}
		if _, err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := s.Resume("app"); !errors.Is(err, plane.ErrClosed) {
			t.Errorf("once it has ended: %v", err)
		}
	})
}

// The half of a pair was received, and so it counts; the bytes of a cut character
// come again.
func TestWhoResumesGoesOnAtWhatWasReceived(t *testing.T) {
	for name, c := range map[string]struct {
		held, rest, want string
		at               int64
	}{
		"after half of a pair":     {highHalf, lowHalf, "a😀", 2},
		"after half, and a byte":   {highHalf + "\xED", lowHalf, "a😀", 2},
		"after bytes of character": {"\xE6\xBC", "漢", "a漢", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil)
				if err := s.Push(t.Context(), "a"+c.held); err != nil {
					t.Fatal(err)
				}
				as, err := s.Resume("")
				if err != nil || s.State().Received != c.at {
					t.Errorf("resumed at %d, %v", s.State().Received, err)
				}
				if err := s.PushAs(t.Context(), as, c.at, c.rest); err != nil {
					t.Error(err)
				}
				if text, _, _ := s.Snapshot(); text != c.want {
					t.Errorf("the text is %q", text)
				}
			})
		})
	}
}

func TestTheSessionGoesAlongWithTheStream(t *testing.T) {
	for name, c := range map[string]struct {
		mark      string
		now, past int64 // sessions that are taken, and fenced
	}{
		"known":     {"/1700.7/1", 7, 6},
		"not known": {"/1700/1", 3, 2}, // it is who comes first
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHanded(t, nil)
				h.push("abc")
				h.leave()
				h.store.Edit("m1", func(r *storetest.Row) { r.Token = c.mark })
				h.store.LoseAcks(1) // which is absorbed
				s := h.adopt("n/2", nil)
				is := func(session int64) plane.ProducerEpoch { return plane.ProducerEpoch{Epoch: 1, Session: session} }
				if err := s.PushAs(t.Context(), is(c.now), 3, "def"); err != nil {
					t.Error(err)
				}
				if err := s.PushAs(t.Context(), is(c.past), 6, "x"); !errors.Is(err, plane.ErrSuperseded) {
					t.Errorf("the one before was answered %v", err)
				}
				if err := s.PushAs(t.Context(), is(c.now+1), 6, "x"); !errors.Is(err, plane.ErrProducerEpoch) {
					t.Errorf("a later one was answered %v", err)
				}
				if now, err := s.Resume("anyone"); err != nil || now.Session != c.now+1 {
					t.Errorf("resumed as %v, %v", now, err)
				}
				if _, err := s.Resume("another"); !errors.Is(err, plane.ErrHeld) {
					t.Errorf("answered %v", err)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // nor is it when it is resumed
		h := newHanded(t, nil)
		h.leave()
		h.store.Edit("m1", func(r *storetest.Row) { r.Token = "/1700/1" })
		s := h.adopt("n/2", nil)
		if now, err := s.Resume(""); err != nil || now.Session < 1e9 {
			t.Errorf("resumed as %v, %v", now, err)
		}
	})
}

func TestMetaGoesIntoTheRowWithTheSeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sealed plane.Seal
		s := newScene(t, func(s *scene, c *plane.Config) { c.Store = sealing{s.store, &sealed} })
		s.SetMeta(json.RawMessage(`{"a":1}`))
		s.SetMeta(json.RawMessage(`{"usage":{"tokens":7}}`))
		s.push("abc")
		if _, err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if string(sealed.Meta) != `{"usage":{"tokens":7}}` {
			t.Errorf("sealed with %s", sealed.Meta)
		}
	})
}

// sealing takes note of seals.
type sealing struct {
	*storetest.Memory
	last *plane.Seal
}

func (s sealing) Seal(ctx context.Context, seal plane.Seal) (plane.Row, error) {
	*s.last = seal
	return s.Memory.Seal(ctx, seal)
}

func TestAProducerThatIsConnectedIsHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := new(plane.Clock)
		clock.Advance()
		s := newScene(t, func(_ *scene, c *plane.Config) { c.Clock, c.Policy.MaxOutstanding = clock, 4 })
		want := func(what string, tick int64) {
			t.Helper()
			if got, live := s.Heard(); got != tick || !live {
				t.Errorf("%s: heard of at %d, %v, want %d", what, got, live, tick)
			}
			clock.Advance()
		}
		want("an open", 1)
		want("nothing", 1)
		s.push("a")
		want("a push", 3)
		if err := s.PushAs(t.Context(), plane.ProducerEpoch{Epoch: 1, Session: 9}, -1, "b"); err == nil {
			t.Error("taken")
		}
		want("a push that is refused", 3)
		as, _ := s.Resume("")
		want("a resume", 5)
		if err := s.KeepAlive(as); err != nil {
			t.Error(err)
		}
		want("a keepalive", 6)
		release := s.Hold()
		clock.Advance()
		want("a hold", 8)
		release()
		want("its end", 9)
		want("nothing", 9)
		s.store.Hang(true)
		s.push("bcd")
		waits := make(chan error, 1)
		go func() { waits <- s.PushAs(s.ctx, as, -1, "e") }()
		synctest.Wait()
		want("a push that waits", 11)
		want("a push that waits on", 12)
		if asked, err := s.InterruptSilent(t.Context(), 100); asked || err != nil {
			t.Errorf("asked to end: %v, %v", asked, err)
		}
		s.pushed += "e"
		s.store.Clear()
		time.Sleep(time.Minute)
		if err := <-waits; err != nil {
			t.Error(err)
		}
		if asked, err := s.InterruptSilent(t.Context(), 12); asked || err != nil {
			t.Errorf("asked to end: %v, %v", asked, err)
		}
		if asked, err := s.InterruptSilent(t.Context(), 13); !asked || err != nil {
			t.Errorf("asked to end: %v, %v", asked, err)
		}
		s.wantSealed(plane.StatusInterrupted)
		if _, live := s.Heard(); live {
			t.Error("it lives")
		}
	})
}
