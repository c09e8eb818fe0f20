package plane_test

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

// journal is what a stream logged.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

func TestAHookThatPanicsIsContainedAndLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log journal
		s := newScene(t, func(_ *scene, c *plane.Config) {
			c.Logger = log.logger()
			c.Hooks = plane.Hooks{
				Checkpoint: func(plane.Checkpoint) { panic("no checkpoints here") },
				Replaced:   func(string, int64) { panic("nothing is replaced") },
				Ended:      func(*plane.Stream, plane.Ending) { panic("this never ends") },
			}
		})
		c := s.Join(0)
		defer c.Close()
		if err := s.Push(s.ctx, "ab\x00c"); err != nil {
			t.Error(err)
		}
		s.pushed = "ab\uFFFDc"
		wantAnswer(t, "flush", s.flushed(), nil)
		s.store.FailWrites(4)
		s.push("secret")
		flush := s.flushed()
		s.after(350 * time.Millisecond)
		wantAnswer(t, "a flush that fails", flush, plane.ErrShort)
		if end, err := s.Close(s.ctx); err != nil || end.Status != plane.StatusComplete {
			t.Errorf("close answered %+v, %v", end, err)
		}
		s.wantSealed(plane.StatusComplete)
		if got := take(c); got.text != s.pushed || got.last.Kind != plane.KindEnd {
			t.Errorf("a reader got %q and %+v", got.text, got.last)
		}
		synctest.Wait()
		for _, want := range []string{"no checkpoints here", "nothing is replaced", "this never ends", "hook=Checkpoint", "streamId=m1"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %q:\n%s", want, log.String())
			}
		}
		if strings.Contains(log.String(), "secret") {
			t.Errorf("the log holds response text:\n%s", log.String())
		}
	})
}

func TestFailuresAreLoggedIfNoHookIsToldOfThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log journal
		s := newScene(t, func(_ *scene, c *plane.Config) {
			c.Logger, c.Hooks = log.logger(), plane.Hooks{}
		})
		s.push("secret")
		wantAnswer(t, "flush", s.flushed(), nil)
		if log.String() != "" {
			t.Errorf("logged of a success:\n%s", log.String())
		}
		s.push("more")
		s.store.FailWrites(8)
		flush := s.flushed()
		s.after(350 * time.Millisecond)
		wantAnswer(t, "flush", flush, plane.ErrShort)
		if _, err := s.Close(s.ctx); !errors.Is(err, plane.ErrShort) {
			t.Errorf("close answered %v", err)
		}
		synctest.Wait()
		if n := strings.Count(log.String(), "checkpoint failed"); n != 2 || strings.Contains(log.String(), "secret") {
			t.Errorf("logged %d failures, want 2, without text:\n%s", n, log.String())
		}
	})
}

func TestEachRoundIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.store.Latency(5*time.Millisecond, 0)
		s.push("abc")
		s.after(time.Second)
		s.push("de")
		s.store.FailWrites(1)
		s.after(time.Second)
		if _, err := s.Close(s.ctx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ms := time.Millisecond
		want := []plane.Checkpoint{
			{StreamID: "m1", From: 0, Seq: 3, Attempts: 1, Took: 5 * ms},
			{StreamID: "m1", From: 3, Seq: 5, Attempts: 2, Took: 60 * ms},
			{StreamID: "m1", From: 5, Seq: 5, Attempts: 1, Took: 5 * ms, Seal: true},
		}
		if !slices.Equal(s.rounds, want) {
			t.Errorf("reported %+v, want %+v", s.rounds, want)
		}
	})
}

// A hook that is slow holds up no round, no reader and no producer.
func TestASlowHookHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := newScene(t, func(_ *scene, c *plane.Config) {
			c.Hooks.Checkpoint = func(plane.Checkpoint) { <-release }
		})
		defer close(release)
		c := s.Join(0)
		defer c.Close()
		for range 3 {
			s.push("abc")
			wantAnswer(t, "flush", s.flushed(), nil)
			if got := take(c); got.durable != s.State().Seq {
				t.Errorf("a reader got %+v", got.frames)
			}
		}
		wantAnswer(t, "close", s.closed(), nil)
		s.wantSealed(plane.StatusComplete)
	})
}
