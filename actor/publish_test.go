package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
)

// takes is a relay that is given frames.
type takes struct {
	mu     sync.Mutex // guards below
	frames []plane.Frame
	calls  int
	during func(ctx context.Context, call int) error
}

func (r *takes) publish(ctx context.Context, _ string, f plane.Frame) error {
	r.mu.Lock()
	r.calls++
	call := r.calls
	r.mu.Unlock()
	if r.during != nil {
		if err := r.during(ctx, call); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frames = append(r.frames, f)
	return nil
}

// spliced is the text of chunks that leave no gap and do not overlap.
func spliced(t *testing.T, frames []plane.Frame) (text string) {
	t.Helper()
	for _, f := range frames {
		if f.Kind != plane.KindChunk {
			continue
		}
		if f.From != plane.Units(text) {
			t.Errorf("a chunk from %d after %d", f.From, plane.Units(text))
		}
		text += f.Text
	}
	return text
}

// W34, RE-10: in order, one at a time; what it is late for comes merged.
func TestASlowPublishHoldsUpNobodyAndKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		relay := &takes{during: func(_ context.Context, call int) error {
			time.Sleep(100 * time.Millisecond)
			return nil
		}}
		h := newHost(t, func(c *actor.Config) { c.Relay = &actor.Relay{Publish: relay.publish} })
		s := h.open("m1", "")
		var want string
		begin := time.Now()
		for i := range 1000 {
			push(t, s, fmt.Sprintf("%d ", i))
			want += fmt.Sprintf("%d ", i)
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("the producer waited %s", took)
		}
		if _, err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := spliced(t, relay.frames); got != want {
			t.Errorf("published %q", got)
		}
		if last := relay.frames[len(relay.frames)-1]; last.Kind != plane.KindEnd || relay.calls > 10 {
			t.Errorf("%d calls, the last for %+v", relay.calls, last)
		}
		if _, last := h.read("m2", 0); last.Kind != plane.KindAbsent { // there is nothing to attach with
			t.Errorf("read %+v", last)
		}
	})
}

func TestAPublishThatHangsOrFailsIsReportedAndCostsItsFrameAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		relay := &takes{during: func(ctx context.Context, call int) error {
			switch call {
			case 1:
				<-ctx.Done()
				return ctx.Err()
			case 2:
				panic("publish threw")
			case 3:
				return errors.New("publish rejected")
			}
			return nil
		}}
		var failures []error
		h := newHost(t, func(c *actor.Config) {
			c.Relay = &actor.Relay{Publish: relay.publish, Failed: func(f actor.Failure) { failures = append(failures, f.Err) }}
		})
		s := h.open("m1", "")
		for _, text := range []string{"a", "b", "c", "d"} {
			push(t, s, text)
			time.Sleep(10 * time.Second)
		}
		synctest.Wait()
		if len(failures) < 3 || !errors.Is(failures[0], context.DeadlineExceeded) {
			t.Errorf("failures %v", failures)
		}
		if st := h.Stats(); st.PublishFailed != int64(len(failures)) {
			t.Errorf("stats are %+v", st)
		}
		if !slices.ContainsFunc(relay.frames, func(f plane.Frame) bool { return f.Text == "d" }) {
			t.Errorf("published %+v", relay.frames)
		}
		h.wantStored("m1", 4, plane.StatusStreaming)
	})
}

// A close does not wait for what is published longer than its context.
func TestACloseEndsAPublishThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		relay := &takes{during: func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }}
		h := newHost(t, func(c *actor.Config) { c.Relay = &actor.Relay{Publish: relay.publish} })
		h.open("m1", "abc")
		synctest.Wait()
		begin := time.Now()
		if err := h.Close(t.Context()); err != nil || time.Since(begin) != 0 {
			t.Errorf("close answered %v after %s", err, time.Since(begin))
		}
	})
}
