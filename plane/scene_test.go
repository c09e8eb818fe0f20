package plane_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is one stream on an in-memory store, in a synctest bubble, with all
// that its hooks were told.
type scene struct {
	*plane.Stream
	t     *testing.T
	ctx   context.Context
	store *storetest.Memory

	mu     sync.Mutex // guards below
	pushed string
	rounds []plane.Checkpoint
	ended  []plane.Ending
	lost   int64 // characters that became U+FFFD
}

// newScene opens a stream; change may alter how it works, and what its store
// holds.
func newScene(t *testing.T, change func(*scene, *plane.Config)) *scene {
	t.Helper()
	s := &scene{t: t, ctx: t.Context(), store: storetest.NewMemory()}
	cfg := plane.Config{Store: s.store, Policy: plane.DefaultPolicy(), Hooks: plane.Hooks{
		Checkpoint: func(c plane.Checkpoint) { s.note(func() { s.rounds = append(s.rounds, c) }) },
		Ended:      func(_ *plane.Stream, e plane.Ending) { s.note(func() { s.ended = append(s.ended, e) }) },
		Replaced:   func(_ string, n int64) { s.note(func() { s.lost += n }) },
	}}
	if change != nil {
		change(s, &cfg)
	}
	stream, err := plane.Open(t.Context(), cfg, plane.Claim{ID: "m1", Node: "n/1"})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	s.Stream = stream
	t.Cleanup(func() {
		s.store.Clear()
		if err := s.Abandon(context.Background()); err != nil {
			t.Errorf("abandon: %v", err)
		}
	})
	return s
}

// policy changes the policy of a scene alone.
func policy(change func(*plane.Policy)) func(*scene, *plane.Config) {
	return func(_ *scene, c *plane.Config) { change(&c.Policy) }
}

func (s *scene) note(what func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what()
}

// push pushes valid deltas that must be taken.
func (s *scene) push(deltas ...string) {
	s.t.Helper()
	for _, delta := range deltas {
		if err := s.Push(s.ctx, delta); err != nil {
			s.t.Fatalf("push %q: %v", delta, err)
		}
		s.note(func() { s.pushed += delta })
	}
}

// after lets time pass, and then all run that can.
func (s *scene) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// stored is the text that the store holds. It must be a prefix of what was
// pushed, as long as its length says.
func (s *scene) stored() string {
	s.t.Helper()
	r, _ := s.store.Row("m1")
	text := r.Body
	for _, c := range r.Chunks {
		text += c.Text
	}
	if !strings.HasPrefix(s.pushed, text) || plane.Units(text) != r.Seq {
		s.t.Fatalf("stored %q at %d is no prefix of %q", text, r.Seq, s.pushed)
	}
	if st := s.State(); st.Durable > r.Seq || st.Durable > st.Seq {
		s.t.Fatalf("%d durable, but %d stored and %d produced", st.Durable, r.Seq, st.Seq)
	}
	return text
}

// wantStored checks what the store holds now.
func (s *scene) wantStored(want string) {
	s.t.Helper()
	synctest.Wait()
	if got := s.stored(); got != want {
		s.t.Errorf("stored %q, want %q", got, want)
	}
}

// wantSealed checks how the row ended: with all that was pushed.
func (s *scene) wantSealed(status plane.Status) {
	s.t.Helper()
	s.wantStored(s.pushed)
	if r, _ := s.store.Row("m1"); r.Status != status || len(r.Chunks) > 0 {
		s.t.Errorf("the row is %s with %d chunks, want %s with none", r.Status, len(r.Chunks), status)
	}
}

// slices returns the ends of the slices that the store was asked to append, in
// their order, as often as it was.
func (s *scene) slices() []int64 {
	var ends []int64
	for _, c := range s.store.Calls() {
		if c.Kind == "append" {
			ends = append(ends, c.Seq)
		}
	}
	return ends
}

func (s *scene) wantSlices(want ...int64) {
	s.t.Helper()
	synctest.Wait()
	if got := s.slices(); !slices.Equal(got, want) {
		s.t.Errorf("slices ended at %v, want %v", got, want)
	}
}

// failures are the rounds that were reported as failed.
func (s *scene) failures() []plane.Checkpoint {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.rounds), func(c plane.Checkpoint) bool { return c.Err == nil })
}

// flushed starts a flush and returns where its answer comes.
func (s *scene) flushed() <-chan error {
	answer := make(chan error, 1)
	go func() {
		_, err := s.Flush(s.ctx)
		answer <- err
	}()
	synctest.Wait()
	return answer
}

// closed starts a close and returns where its answer comes.
func (s *scene) closed() <-chan error {
	answer := make(chan error, 1)
	go func() {
		_, err := s.Close(s.ctx)
		answer <- err
	}()
	synctest.Wait()
	return answer
}

// wantAnswer checks that there is an answer now, and which.
func wantAnswer(t *testing.T, what string, answer <-chan error, want error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-answer:
		if !errors.Is(err, want) {
			t.Errorf("%s answered %v, want %v", what, err, want)
		}
	default:
		t.Errorf("%s was not answered", what)
	}
}

// wantNone checks that there is no answer yet.
func wantNone(t *testing.T, what string, answer <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-answer:
		t.Errorf("%s answered %v, too early", what, err)
	default:
	}
}

// taken is what a reader took.
type taken struct {
	frames  []plane.Frame
	from    int64 // of its open
	text    string
	durable int64
	last    plane.Frame
}

// take takes all frames that are there.
func take(c *plane.Cursor) (got taken) {
	for {
		f, ok, _ := c.Poll()
		if !ok {
			return got
		}
		got.frames = append(got.frames, f)
		switch got.last = f; f.Kind {
		case plane.KindOpen:
			got.from = f.From
		case plane.KindChunk:
			got.text += f.Text
		case plane.KindDurable:
			got.durable = f.Seq
		}
	}
}

// join reads all that is there from an offset on.
func (s *scene) join(from int64) taken {
	c := s.Join(from)
	defer c.Close()
	return take(c)
}
