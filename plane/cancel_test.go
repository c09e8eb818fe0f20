package plane_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

// setFlag sets the row's cancel flag, as any node or SQL may.
func (s *scene) setFlag(on bool) {
	s.store.Edit("m1", func(r *storetest.Row) { r.Cancel = on })
}

func TestACancelIsSeenWithTheNextCheckpoint(t *testing.T) {
	for name, before := range map[string]func(*scene){
		"that succeeds":          func(*scene) {},
		"whose answer is lost":   func(s *scene) { s.store.LoseAcks(1) },
		"that fails and is read": func(s *scene) { s.store.FailWrites(1) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, policy(func(p *plane.Policy) { p.CancelGrace = 0 }))
				s.push("ab")
				s.setFlag(true)
				if s.IsCancelled() {
					t.Error("seen before anybody looked")
				}
				before(s)
				_, err := s.Flush(s.ctx)
				if err != nil {
					t.Error(err)
				}
				select {
				case <-s.Cancelled():
				default:
					t.Error("not seen")
				}
				s.setFlag(false)
				s.push("cd")
				wantAnswer(t, "flush", s.flushed(), nil)
				if !s.IsCancelled() {
					t.Error("forgotten")
				}
				if end, err := s.Close(s.ctx); err != nil || end.Status != plane.StatusCancelled {
					t.Errorf("close answered %+v, %v", end, err)
				}
				s.wantSealed(plane.StatusCancelled)
			})
		})
	}
}

func TestACancelThatIsOlderThanTheOpenIsSeenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, func(s *scene, _ *plane.Config) { s.setFlag(true) })
		if !s.IsCancelled() {
			t.Error("not seen")
		}
	})
}

func TestAStreamIsSealedIfItsProducerDoesNotHeedACancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.push("abc")
		s.Cancel()
		s.Cancel()
		s.after(2*time.Second - 1)
		s.push("more")
		s.after(1)
		if err := s.Push(s.ctx, "late"); !errors.Is(err, plane.ErrClosed) {
			t.Errorf("push answered %v", err)
		}
		s.wantSealed(plane.StatusCancelled)
	})
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, policy(func(p *plane.Policy) { p.CancelGrace = 0 }))
		s.Cancel()
		s.after(time.Hour)
		s.push("a producer without a limit ends it itself")
	})
}

// upstream is a source that gives deltas, one each 10 ms, and notes how many
// were taken and whether it was closed. It looks at its context if told to.
type upstream struct {
	deltas []string
	err    error // after the last one
	heeds  bool
	pulled int
	closed bool
}

func (u *upstream) source(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		defer func() { u.closed = true }()
		for _, delta := range u.deltas {
			var done <-chan struct{}
			if u.heeds {
				done = ctx.Done()
			}
			select {
			case <-time.After(10 * time.Millisecond):
			case <-done:
				return
			}
			u.pulled++
			if !yield(delta, nil) {
				return
			}
		}
		if u.err != nil {
			yield("", u.err)
		}
	}
}

func deltasOf(n int) (list []string) {
	for range n {
		list = append(list, "0123456789")
	}
	return list
}

func TestPump(t *testing.T) {
	broken := errors.New("upstream broke")
	for name, tt := range map[string]struct {
		up     upstream
		during func(*scene, context.CancelFunc) // after 25 ms
		want   error
		pulled int
	}{
		"pushes all there is":                       {upstream{deltas: deltasOf(5)}, nil, nil, 5},
		"returns its source's error":                {upstream{deltas: deltasOf(5), err: broken}, nil, broken, 5},
		"stops after the delta it was cancelled in": {upstream{deltas: deltasOf(100)}, func(s *scene, _ context.CancelFunc) { s.Cancel() }, nil, 3},
		"stops at once if its source heeds":         {upstream{deltas: deltasOf(100), heeds: true}, func(s *scene, _ context.CancelFunc) { s.Cancel() }, nil, 2},
		"is refused once the stream is sealed":      {upstream{deltas: deltasOf(100)}, func(s *scene, _ context.CancelFunc) { s.closed() }, plane.ErrClosed, 3},
		"is refused at once if its source heeds":    {upstream{deltas: deltasOf(100), heeds: true}, func(s *scene, _ context.CancelFunc) { s.closed() }, plane.ErrClosed, 2},
		"is told that the stream is another's": {upstream{deltas: deltasOf(100), heeds: true}, func(s *scene, _ context.CancelFunc) {
			s.store.Edit("m1", func(r *storetest.Row) { r.Token = "n/2/2" })
			s.flushed()
		}, plane.ErrFenced, 2},
		"ends with its context": {upstream{deltas: deltasOf(100), heeds: true}, func(_ *scene, cancel context.CancelFunc) { cancel() }, context.Canceled, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil)
				ctx, cancel := context.WithCancel(s.ctx)
				defer cancel()
				up := tt.up
				pumped := make(chan error, 1)
				go func() { pumped <- s.Pump(ctx, up.source) }()
				s.after(25 * time.Millisecond)
				if tt.during != nil {
					tt.during(s, cancel)
				}
				s.after(time.Second)
				wantAnswer(t, "pump", pumped, tt.want)
				if up.pulled != tt.pulled || !up.closed {
					t.Errorf("%d deltas were pulled, want %d; closed: %v", up.pulled, tt.pulled, up.closed)
				}
				if st := s.State(); tt.during == nil && (st.Seq != 50 || st.Over) {
					t.Errorf("the stream is at %d, over: %v", st.Seq, st.Over)
				}
			})
		})
	}
}

func TestAQuietPumpStopsAtOnceOnACancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		var closed bool
		pumped := make(chan error, 1)
		go func() {
			pumped <- s.Pump(s.ctx, func(ctx context.Context) iter.Seq2[string, error] {
				return func(yield func(string, error) bool) {
					defer func() { closed = true }()
					if yield("abc", nil) {
						<-ctx.Done()
						yield("", ctx.Err())
					}
				}
			})
		}()
		s.after(time.Hour)
		wantNone(t, "pump", pumped)
		s.Cancel()
		wantAnswer(t, "pump", pumped, nil)
		s.pushed = "abc"
		if end, err := s.Close(s.ctx); err != nil || end.Status != plane.StatusCancelled || !closed {
			t.Errorf("close answered %+v, %v; the source was closed: %v", end, err, closed)
		}
		s.wantSealed(plane.StatusCancelled)
	})
}

func TestAPumpIsSlowedByTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, policy(func(p *plane.Policy) { p.MaxOutstanding = 100 }))
		s.store.FailWrites(1 << 30)
		up := upstream{deltas: deltasOf(100)}
		pumped := make(chan error, 1)
		go func() { pumped <- s.Pump(s.ctx, up.source) }()
		s.after(time.Minute)
		if up.pulled != 11 {
			t.Errorf("%d deltas were pulled", up.pulled)
		}
		s.Cancel()
		wantAnswer(t, "pump", pumped, nil)
	})
}

func TestPumpAtAbsorbsWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.push("012345")
		up := upstream{deltas: []string{"234", "5é\xF0\x9F", "\x98\x80", "!"}}
		if err := s.PumpAt(s.ctx, 2, up.source); err != nil {
			t.Fatal(err)
		}
		if got := s.join(0).text; got != "012345é😀!" {
			t.Errorf("produced %q", got)
		}
		up = upstream{deltas: []string{"x"}}
		if err := s.PumpAt(s.ctx, 0, up.source); !errors.Is(err, plane.ErrConflict) || !up.closed {
			t.Errorf("other text answered %v", err)
		}
	})
}
