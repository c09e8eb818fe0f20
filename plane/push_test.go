package plane_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

func TestAnEmptyPushIsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		c := s.Join(0)
		defer c.Close()
		take(c)
		s.push("")
		s.after(time.Hour)
		if got := take(c); len(got.frames) > 0 || len(s.slices()) > 0 {
			t.Errorf("a reader got %v, the store %v", got.frames, s.slices())
		}
	})
}

func TestPushHandsTextToReadersBeforeTheStoreHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.store.Latency(time.Hour, 0)
		c := s.Join(0)
		defer c.Close()
		take(c)
		s.push(strings.Repeat("x", 600))
		if got := take(c); len(got.frames) != 1 || got.last.Seq != 600 {
			t.Errorf("a reader got %v", got.frames)
		}
	})
}

func TestPushAfterASealIsRefusedAndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.push("abc")
		s.store.Latency(time.Second, 0)
		closed := s.closed()
		for range 2 { // while it is being sealed, and after
			if err := s.Push(s.ctx, "late"); !errors.Is(err, plane.ErrClosed) {
				t.Errorf("push answered %v", err)
			}
			if err := s.PushAt(s.ctx, 3, "late"); !errors.Is(err, plane.ErrClosed) {
				t.Errorf("push at the end answered %v", err)
			}
			s.after(time.Second)
		}
		wantAnswer(t, "close", closed, nil)
		s.wantSealed(plane.StatusComplete)
	})
}

func TestPushPastTheLimitIsRefusedWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, policy(func(p *plane.Policy) { p.MaxUnits = 10 }))
		s.push("01234567")
		for _, delta := range []string{"abc", "x\xED\xA0\xBDx"} { // the second with half a pair
			if err := s.Push(s.ctx, delta); !errors.Is(err, plane.ErrTooLong) {
				t.Errorf("push of %q answered %v", delta, err)
			}
		}
		s.push("😀")
		if st := s.State(); st.Seq != 10 {
			t.Errorf("produced %d", st.Seq)
		}
	})
}

// A producer past MaxOutstanding waits for the store, and nobody else does.
func TestBackPressure(t *testing.T) {
	full := func(t *testing.T) *scene {
		s := newScene(t, policy(func(p *plane.Policy) { p.MaxOutstanding = 1000 }))
		s.store.FailWrites(1 << 30)
		s.push(strings.Repeat("x", 999), strings.Repeat("y", 500))
		return s
	}
	blocked := func(s *scene, ctx context.Context) <-chan error {
		answer := make(chan error, 1)
		go func() { answer <- s.Push(ctx, "z") }()
		s.after(time.Minute)
		wantNone(s.t, "push", answer)
		return answer
	}
	t.Run("ends when the store holds enough", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := full(t)
			answer := blocked(s, s.ctx)
			s.store.Clear()
			s.after(time.Minute)
			wantAnswer(t, "push", answer, nil)
			s.pushed += "z"
			s.wantStored(s.pushed)
		})
	})
	t.Run("ends with the context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := full(t)
			ctx, cancel := context.WithCancel(s.ctx)
			answer := blocked(s, ctx)
			cancel()
			wantAnswer(t, "push", answer, context.Canceled)
			if st := s.State(); st.Seq != 1499 {
				t.Errorf("produced %d", st.Seq)
			}
		})
	})
	t.Run("ends with a seal", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := full(t)
			answer := blocked(s, s.ctx)
			s.store.Clear()
			closed := s.closed()
			wantAnswer(t, "push", answer, plane.ErrClosed)
			wantAnswer(t, "close", closed, nil)
			s.wantSealed(plane.StatusComplete)
		})
	})
	t.Run("holds up no reader", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := full(t)
			ctx, cancel := context.WithCancel(s.ctx)
			answer := blocked(s, ctx)
			if got := s.join(0); len(got.text) != 1499 {
				t.Errorf("a reader got %d units", len(got.text))
			}
			cancel()
			<-answer
		})
	})
}

// A producer that repeats itself: what it sent before is absorbed, also where
// it is held for its other half, or became U+FFFD.
func TestPushAt(t *testing.T) {
	const high, low = "\xED\xA0\xBD", "\xED\xB8\x80" // the halves of U+1F600
	type append struct {
		at    int64
		delta string
		want  error // ErrGap or ErrConflict
		next  int64 // where the next one starts
	}
	for name, tt := range map[string]struct {
		appends []append
		text    string
	}{
		"a repeat is absorbed": {
			[]append{{0, "abc", nil, 3}, {0, "abc", nil, 3}, {1, "bc", nil, 3}, {2, "c", nil, 3}, {3, "", nil, 3}}, "abc",
		},
		"an overlap adds the rest": {
			[]append{{0, "abc", nil, 3}, {1, "bcde", nil, 5}, {0, "abcdef", nil, 6}}, "abcdef",
		},
		"a gap is refused": {
			[]append{{0, "abc", nil, 3}, {4, "e", plane.ErrGap, 3}, {3, "d", nil, 4}}, "abcd",
		},
		"other text is refused": {
			[]append{{0, "abc", nil, 3}, {1, "xc", plane.ErrConflict, 3}, {1, "bcd", nil, 4}, {2, "cX", plane.ErrConflict, 4}}, "abcd",
		},
		"an offset below 0 is refused": {
			[]append{{0, "abc", nil, 3}, {-1, "xabc", plane.ErrConflict, 3}}, "abc",
		},
		"half a pair is held and counted": {
			[]append{{0, "a" + high, nil, 2}, {0, "a" + high, nil, 2}, {1, high, nil, 2}, {2, low + "b", nil, 4}, {1, "😀b", nil, 4}}, "a😀b",
		},
		"a repeat of half a pair that has met its mate": {
			[]append{{0, "a" + high, nil, 2}, {2, low, nil, 3}, {1, high, nil, 3}, {2, low, nil, 3}, {0, "a" + high, nil, 3}}, "a😀",
		},
		"other text where half a pair is held": {
			[]append{{0, high, nil, 1}, {0, "x", plane.ErrConflict, 1}, {0, "😀", nil, 2}}, "😀",
		},
		"what became U+FFFD": {
			[]append{{0, "a\x00b" + low, nil, 4}, {0, "a\x00b" + low, nil, 4}, {1, "\x00b", nil, 4}, {3, low + "c", nil, 5}, {1, "xb", plane.ErrConflict, 5}}, "a\uFFFDb\uFFFDc",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil)
				for i, a := range tt.appends {
					err := s.PushAt(s.ctx, a.at, a.delta)
					var offset *plane.OffsetError
					switch {
					case !errors.Is(err, a.want):
						t.Fatalf("append %d answered %v, want %v", i, err, a.want)
					case a.want != nil && (!errors.As(err, &offset) || offset.Want != a.next || offset.From != a.at):
						t.Fatalf("append %d answered %v, want it to start at %d", i, err, a.next)
					case s.State().Received != a.next:
						t.Fatalf("after append %d the next starts at %d, want %d", i, s.State().Received, a.next)
					}
				}
				if got := s.join(0).text; got != tt.text {
					t.Errorf("produced %q, want %q", got, tt.text)
				}
			})
		})
	}
}

// Half of a pair waits for its mate: over pushes and flushes, not over the seal.
func TestHalfAPairIsHeld(t *testing.T) {
	for name, tt := range map[string]struct {
		deltas   []string
		text     string // once sealed
		produced int64  // before
		replaced int64
	}{
		"in two deltas":                   {[]string{"a\xED\xA0\xBD", "\xED\xB8\x80b"}, "a😀b", 4, 0},
		"with an empty one between":       {[]string{"\xED\xA0\xBD", "", "\xED\xB8\x80"}, "😀", 2, 0},
		"in UTF-8, byte by byte":          {[]string{"\xF0", "\x9F", "\x98", "\x80"}, "😀", 2, 0},
		"that never comes":                {[]string{"a\xED\xA0\xBD"}, "a\uFFFD", 1, 1},
		"that is followed by other text":  {[]string{"a\xED\xA0\xBD", "b"}, "a\uFFFDb", 3, 1},
		"that is followed by another one": {[]string{"\xED\xA0\xBD", "\xED\xA0\xBD", "\xED\xB8\x80"}, "\uFFFD😀", 3, 1},
		"without its first half":          {[]string{"\xED\xB8\x80a"}, "\uFFFDa", 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil)
				for _, delta := range tt.deltas {
					if err := s.Push(s.ctx, delta); err != nil {
						t.Fatal(err)
					}
					if n, err := s.Flush(s.ctx); err != nil || n != s.State().Seq {
						t.Fatalf("flush answered %d, %v with %d produced", n, err, s.State().Seq)
					}
				}
				if st := s.State(); st.Seq != tt.produced {
					t.Errorf("produced %d, want %d", st.Seq, tt.produced)
				}
				s.pushed = tt.text
				if _, err := s.Close(s.ctx); err != nil {
					t.Fatal(err)
				}
				s.wantSealed(plane.StatusComplete)
				if got := s.join(0).text; got != tt.text {
					t.Errorf("a reader got %q, want %q", got, tt.text)
				}
				if s.lost != tt.replaced {
					t.Errorf("the hook was told of %d replaced, want %d", s.lost, tt.replaced)
				}
			})
		})
	}
}
