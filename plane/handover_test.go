package plane_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/storetest"
)

// handed is a scene whose hand-overs are counted, and whose store may answer a
// Disown in another way.
type handed struct {
	*scene
	moved  []plane.Moved
	disown func(context.Context, string, string) (plane.Row, error)
}

func newHanded(t *testing.T, change func(*plane.Config)) *handed {
	h := new(handed)
	h.scene = newScene(t, func(s *scene, c *plane.Config) {
		c.Store = disowning{s.store, h}
		c.Texts = store.Texts(s.store)
		c.Hooks.Moved = func(_ *plane.Stream, m plane.Moved) { s.note(func() { h.moved = append(h.moved, m) }) }
		if change != nil {
			change(c)
		}
	})
	return h
}

type disowning struct {
	*storetest.Memory
	h *handed
}

func (d disowning) Disown(ctx context.Context, id, token string, session int64) (plane.Row, error) {
	if d.h.disown != nil {
		return d.h.disown(ctx, id, token)
	}
	return d.Memory.Disown(ctx, id, token, session)
}

// wantMoved checks that the stream was handed over with all that was pushed.
func (h *handed) wantMoved(err error, late bool) {
	h.t.Helper()
	synctest.Wait()
	r, _ := h.store.Row("m1")
	switch {
	case err != nil:
		h.t.Errorf("handing over answered %v", err)
	case len(h.moved) != 1 || len(h.ended) != 0:
		h.t.Errorf("it moved %d times and ended %d times", len(h.moved), len(h.ended))
	case h.moved[0].Late != late:
		h.t.Errorf("late is %v, want %v", h.moved[0].Late, late)
	case r.Status != plane.StatusStreaming || r.Token == "n/1/1":
		h.t.Errorf("the row is %s under %q", r.Status, r.Token)
	}
	h.wantStored(h.pushed)
	h.wantRefused()
}

// wantRefused checks that the producer is sent elsewhere, and goes on where the
// text ends.
func (h *handed) wantRefused() {
	h.t.Helper()
	err := h.Push(h.ctx, "more")
	var at *plane.OffsetError
	if !errors.Is(err, plane.ErrMoved) || !errors.As(err, &at) || at.Want != plane.Units(h.pushed) {
		h.t.Errorf("a push was answered %v", err)
	}
	if err := h.PushAt(h.ctx, 0, "more"); !errors.Is(err, plane.ErrMoved) || !errors.Is(h.Refusal(), plane.ErrMoved) {
		h.t.Errorf("a push at an offset was answered %v, and %v", err, h.Refusal())
	}
}

// wantGoingOn checks that nothing came of a hand-over.
func (h *handed) wantGoingOn() {
	h.t.Helper()
	h.store.Clear()
	h.push("and on")
	if _, err := h.Flush(h.ctx); err != nil {
		h.t.Errorf("flush answered %v", err)
	}
	h.wantStored(h.pushed)
	if len(h.moved)+len(h.ended) != 0 || h.Refusal() != nil {
		h.t.Errorf("it moved %v, ended %v, refuses with %v", h.moved, h.ended, h.Refusal())
	}
	if _, err := h.Close(h.ctx); err != nil {
		h.t.Errorf("close answered %v", err)
	}
	h.wantSealed(plane.StatusComplete)
}

func TestAStreamIsHandedOverWithAllThatWasProduced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHanded(t, nil)
		h.push("abc😀")
		reader, idle := h.Join(0), h.Join(5)
		defer reader.Close()
		defer idle.Close()
		if got := take(reader); got.text != "abc😀" {
			t.Errorf("the reader had %q", got.text)
		}
		_, err := h.HandOver(t.Context())
		h.wantMoved(err, false)
		for _, c := range []*plane.Cursor{reader, idle, h.Join(2)} {
			if got := take(c); got.last.Kind != plane.KindStale || got.last.DurableSeq != 5 {
				t.Errorf("a reader was told %+v", got.last)
			}
		}
		if n, err := h.Flush(t.Context()); n != 5 || err != nil {
			t.Errorf("flush answered %d, %v", n, err)
		}
		if end, err := h.Close(t.Context()); !errors.Is(err, plane.ErrMoved) || end.Seq != 5 {
			t.Errorf("close answered %+v, %v", end, err)
		}
		if _, err := h.HandOver(t.Context()); !errors.Is(err, plane.ErrMoved) {
			t.Errorf("handing over again answered %v", err)
		}
		if st := h.State(); st.Status != plane.StatusStreaming || !st.Over || st.Received != 5 || st.Durable != 5 {
			t.Errorf("the state is %+v", st)
		}
	})
}

// What it does not take along is sent again by who sent it.
func TestHalfOfAPairStaysBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHanded(t, nil)
		h.push("ab")
		if err := h.Push(t.Context(), highHalf); err != nil || h.State().Received != 3 {
			t.Fatalf("%v, %+v", err, h.State())
		}
		_, err := h.HandOver(t.Context())
		h.wantMoved(err, false)
		if st := h.State(); st.Received != 2 {
			t.Errorf("received %d, want 2", st.Received)
		}
		next := h.adopt("n/2", nil)
		if err := next.PushAt(t.Context(), 3, lowHalf); !errors.Is(err, plane.ErrGap) {
			t.Errorf("the other half alone was answered %v", err)
		}
		if err := next.PushAt(t.Context(), 2, highHalf+lowHalf); err != nil {
			t.Error(err)
		}
		h.pushed += "😀"
		if _, err := next.Close(t.Context()); err != nil {
			t.Error(err)
		}
		h.wantSealed(plane.StatusComplete)
	})
}

// adopt makes the scene's stream live on another node, and ends it with the test.
func (s *scene) adopt(node string, change func(*plane.Config)) *plane.Stream {
	s.t.Helper()
	cfg := plane.Config{Store: s.store, Texts: store.Texts(s.store)}
	if change != nil {
		change(&cfg)
	}
	next, err := plane.Adopt(s.ctx, cfg, "m1", node)
	if err != nil {
		s.t.Fatalf("adopt: %v", err)
	}
	s.t.Cleanup(func() {
		s.store.Clear()
		if err := next.Abandon(context.Background()); err != nil {
			s.t.Errorf("abandon: %v", err)
		}
	})
	return next
}

func TestAnAnswerThatIsLostDoesNotKeepAStream(t *testing.T) {
	for name, c := range map[string]struct {
		faults func(*handed)
		late   bool
	}{
		"of the disowning": {func(h *handed) { h.store.LoseAcks(1) }, false},
		"of the disowning and of looking what it did": {
			func(h *handed) { h.store.LoseAcks(1); h.store.FailReads(1) }, true,
		},
		"again and again": {func(h *handed) { h.store.LoseAcks(3); h.store.FailReads(3) }, true},
		"while another has adopted it": {func(h *handed) {
			h.store.LoseAcks(1)
			h.store.FailReads(1)
			h.store.Rival("m1", func(*storetest.Row) {})
			go func() {
				time.Sleep(10 * time.Millisecond)
				h.store.Edit("m1", func(r *storetest.Row) { r.Token = "n/2/1" })
			}()
		}, true},
		"while another has adopted and ended it": {func(h *handed) {
			h.store.LoseAcks(1)
			h.store.FailReads(1)
			go func() {
				time.Sleep(10 * time.Millisecond)
				h.store.Edit("m1", func(r *storetest.Row) { r.Token, r.Status = "n/2/1", plane.StatusComplete })
			}()
		}, true},
		"of what was not done": {func(h *handed) { h.store.FailWrites(2) }, true},
		"of an append before":  {func(h *handed) { h.push("def"); h.store.LoseAcks(1) }, false},
		"for an hour": {func(h *handed) {
			h.store.FailWrites(1000)
			go func() {
				time.Sleep(time.Hour)
				h.store.Clear()
			}()
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHanded(t, nil)
				h.push("abc")
				if _, err := h.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				c.faults(h)
				_, err := h.HandOver(t.Context())
				if name == "while another has adopted and ended it" {
					if r, _ := h.store.Row("m1"); err != nil || r.Status != plane.StatusComplete || len(h.ended) != 0 {
						t.Errorf("%v, %+v", err, r)
					}
					h.wantRefused()
					return
				}
				h.wantMoved(err, c.late)
			})
		})
	}
}

// While the store does not answer nobody knows whose the row is: nothing may be
// produced that it then lacks.
func TestAStreamTakesNoMoreUntilItIsKnownWhoseItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHanded(t, nil)
		h.push("abc")
		if _, err := h.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.store.Hang(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.HandOver(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("handing over answered %v", err)
		}
		h.after(time.Hour)
		h.wantRefused()
		closed := h.closed()
		wantNone(t, "close", closed)
		if len(h.moved) != 0 {
			t.Error("it moved")
		}
		h.store.Hang(false)
		h.after(time.Minute)
		h.wantMoved(nil, true)
		wantAnswer(t, "close", closed, plane.ErrMoved)
	})
}

func TestAnAbandonedStreamIsNotHandedOver(t *testing.T) {
	for name, hang := range map[string]func(*handed){
		"in its flush": func(h *handed) { h.push("abc"); h.store.Hang(true) },
		"after it":     func(h *handed) { h.store.Hang(true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHanded(t, nil)
				hang(h)
				answer := make(chan error, 1)
				go func() {
					_, err := h.HandOver(t.Context())
					answer <- err
				}()
				synctest.Wait()
				if err := h.Abandon(t.Context()); err != nil {
					t.Error(err)
				}
				if err := <-answer; !errors.Is(err, plane.ErrClosed) && !errors.Is(err, plane.ErrShort) {
					t.Errorf("handing over answered %v", err)
				}
				if len(h.moved) != 0 {
					t.Error("it moved")
				}
			})
		})
	}
}

func TestASealWaitsForAHandOver(t *testing.T) {
	for name, c := range map[string]struct {
		says error
		want error
	}{
		"that goes well": {nil, plane.ErrMoved},
		"that does not":  {plane.ErrBroken, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHanded(t, nil)
				h.push("abc")
				open := make(chan struct{})
				h.disown = func(ctx context.Context, id, token string) (plane.Row, error) {
					<-open
					if c.says != nil {
						return plane.Row{}, c.says
					}
					return h.store.Disown(ctx, id, token, 1)
				}
				go func() { _, _ = h.HandOver(t.Context()) }()
				synctest.Wait()
				closed, flushed := h.closed(), h.flushed()
				wantNone(t, "close", closed)
				wantAnswer(t, "flush", flushed, nil)
				close(open)
				wantAnswer(t, "close", closed, c.want)
				if c.want == nil {
					h.wantSealed(plane.StatusComplete)
				}
			})
		})
	}
}

func TestAStreamThatEndsIsNotHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHanded(t, nil)
		h.push("abc")
		h.store.Latency(time.Second, 0)
		closed := h.closed()
		if _, err := h.HandOver(t.Context()); !errors.Is(err, plane.ErrClosed) {
			t.Errorf("handing over answered %v", err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		h.wantSealed(plane.StatusComplete)
		if _, err := h.HandOver(t.Context()); !errors.Is(err, plane.ErrClosed) {
			t.Errorf("handing over answered %v", err)
		}
	})
}

// The flag need not be in the store.
func TestAStreamThatWasAskedToStopIsSealedInstead(t *testing.T) {
	for name, when := range map[string]func(*handed){
		"before": func(h *handed) { h.Cancel() },
		"while its text is made durable": func(h *handed) {
			h.store.Latency(time.Second, 0)
			time.AfterFunc(500*time.Millisecond, h.Cancel)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHanded(t, nil)
				h.push("abc")
				when(h)
				if _, err := h.HandOver(t.Context()); !errors.Is(err, plane.ErrCancelled) {
					t.Errorf("handing over answered %v", err)
				}
				h.wantSealed(plane.StatusCancelled)
				if len(h.moved) != 0 {
					t.Error("it moved")
				}
			})
		})
	}
	t.Run("also when its time is over", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newHanded(t, nil)
			h.push("abc")
			h.disown = func(ctx context.Context, _, _ string) (plane.Row, error) {
				h.Cancel()
				time.Sleep(5 * time.Second) // more than its producer has to end it
				return plane.Row{}, plane.ErrBroken
			}
			if _, err := h.HandOver(t.Context()); !errors.Is(err, plane.ErrBroken) {
				t.Errorf("handing over answered %v", err)
			}
			h.after(3 * time.Second)
			if len(h.ended) != 1 {
				t.Error("it goes on")
			}
		})
	})
}

func TestWhoAddsTextIsSentOnAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHanded(t, func(c *plane.Config) { c.Policy.MaxOutstanding = 3 })
		h.store.Latency(time.Second, 0)
		h.push("abc")
		waits := make(chan error, 2)
		go func() { waits <- h.Push(t.Context(), "no room") }()
		idle := func(ctx context.Context) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				<-ctx.Done()
				yield("", ctx.Err())
			}
		}
		go func() { waits <- h.Pump(t.Context(), idle) }()
		synctest.Wait()
		_, err := h.HandOver(t.Context())
		h.wantMoved(err, false)
		for range 2 {
			wantAnswer(t, "the producer", waits, plane.ErrMoved)
		}
	})
}

func TestWithoutAStoreForItNothingIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, func(s *scene, c *plane.Config) { c.Store = struct{ plane.Store }{s.store} })
		if _, err := s.HandOver(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("handing over answered %v", err)
		}
		cfg := plane.Config{Store: struct{ plane.Store }{s.store}, Texts: store.Texts(s.store)}
		if _, err := plane.Adopt(t.Context(), cfg, "m1", "n/2"); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("adopting answered %v", err)
		}
		if _, err := plane.Adopt(t.Context(), plane.Config{Store: s.store}, "m1", "n/2"); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("adopting without texts answered %v", err)
		}
	})
}

// Its row may be another's by now, who has gone on.
func TestWhoHasMoreThanAStreamThatIsHandedOverIsSentOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHanded(t, nil)
		h.push("abc")
		h.disown = func(ctx context.Context, id, token string) (plane.Row, error) {
			if _, err := h.store.Disown(ctx, id, token, 1); err != nil {
				return plane.Row{}, err
			}
			<-ctx.Done() // and the answer is lost
			return plane.Row{}, ctx.Err()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, _ = h.HandOver(ctx)
		for from, want := range map[int64]plane.Kind{3: plane.KindOpen, 4: plane.KindStale} {
			c := h.Join(from)
			if f, ok, _ := c.Poll(); !ok || f.Kind != want {
				t.Errorf("from %d: %+v", from, f)
			}
			c.Close()
		}
	})
}
