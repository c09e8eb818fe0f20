package router

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/sse"
)

// tip is what all readers of a stream wait for.
type tip struct {
	mu   sync.Mutex
	more chan struct{} // closed at the next change
}

// script is a source whose frames are put into it.
type script struct {
	*tip
	stream *plane.Live
	queue  []plane.Frame
	polled func() // called in the next Poll; may be nil
	asked  func() // called in the next Stream; may be nil
}

// put adds a chunk and says so.
func (s *script) put(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, plane.Frame{Kind: plane.KindChunk, Text: text, Seq: plane.Units(text)})
	close(s.more)
	s.more = make(chan struct{})
}

func (s *script) Poll() (f plane.Frame, ok bool, more <-chan struct{}) {
	if then := s.polled; then != nil {
		s.polled = nil
		then()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 {
		f, ok, s.queue = s.queue[0], true, s.queue[1:]
	}
	if len(s.queue) == 0 {
		more = s.more
	}
	return f, ok, more
}

func (s *script) Stream() *plane.Live {
	if then := s.asked; then != nil {
		s.asked = nil
		then()
	}
	return s.stream
}

func (s *script) Close() {}

// wireEnd is a connection that keeps what it is sent. A try takes limit bytes at
// the most.
type wireEnd struct {
	mu     sync.Mutex
	got    bytes.Buffer
	limit  int
	sends  int // that might have waited
	closed bool
}

func (w *wireEnd) try(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.got.Write(b[:min(len(b), w.limit)])
}

func (w *wireEnd) send(buffers [][]byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sends++
	for _, b := range buffers {
		w.got.Write(b)
	}
	return nil
}

func (w *wireEnd) cut() {}

func (w *wireEnd) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}

func (w *wireEnd) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.got.String()
}

// stage is a router without a listener, and readers of one stream.
type stage struct {
	*Router
	stream  *plane.Live
	tip     *tip
	readers []*delivery
}

func newStage(limits Limits) *stage {
	r := &Router{cfg: Config{Metrics: NewMetrics()}, limits: limits.withDefaults(), log: slog.New(slog.DiscardHandler)}
	r.crews.serving, r.crews.metrics = &r.serving, r.cfg.Metrics
	r.stop, r.end = context.WithCancel(context.Background())
	return &stage{Router: r, stream: new(plane.Live), tip: &tip{more: make(chan struct{})}}
}

// reader starts one, and waits until it is at the tip.
func (s *stage) reader(limit int) (*script, *wireEnd) {
	from, to := &script{tip: s.tip, stream: s.stream}, &wireEnd{limit: limit}
	d := &delivery{router: s.Router, from: from, to: to, prompt: to, ping: s.limits.Ping, signal: make(chan struct{}, 1), done: s.serving.leave}
	s.readers = append(s.readers, d)
	s.serving.also()
	d.begin()
	go d.run()
	synctest.Wait()
	to.mu.Lock()
	defer to.mu.Unlock()
	to.got.Reset() // the retry
	return from, to
}

// leave ends all readers.
func (s *stage) leave(t *testing.T) {
	for _, d := range s.readers {
		d.gone()
	}
	if err := s.serving.wait(t.Context()); err != nil {
		t.Error(err)
	}
	if s.crews.of == nil || len(s.crews.of) > 0 {
		t.Errorf("crews are left, or never were: %v", s.crews.of)
	}
}

func events(texts ...string) string {
	var b []byte
	for _, text := range texts {
		b = sse.Append(b, plane.Frame{Kind: plane.KindChunk, Text: text, Seq: plane.Units(text)})
	}
	return string(b)
}

func wantText(t *testing.T, to *wireEnd, want string) {
	t.Helper()
	if got := to.text(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestACrewWritesToAllItsReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(Limits{})
		var texts []*script
		var ends []*wireEnd
		for range 2*crewSize + 1 {
			from, to := s.reader(1 << 20)
			texts, ends = append(texts, from), append(ends, to)
		}
		if got := len(s.crews.of[s.stream]); got != 3 {
			t.Errorf("%d crews, want 3", got)
		}
		for i, from := range texts {
			from.put("text")
			from.put(fmt.Sprint(i))
		}
		synctest.Wait()
		for i, to := range ends {
			wantText(t, to, events("text", fmt.Sprint(i)))
			if to.sends != 1 {
				t.Errorf("%d sends, want that of the start", to.sends)
			}
		}
		s.leave(t)
	})
}

func TestAReaderThatTakesPartOfAWriteLeavesItsCrewAndComesBack(t *testing.T) {
	for _, limit := range []int{0, 1, 50} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(Limits{})
			slow, slowEnd := s.reader(limit)
			fast, fastEnd := s.reader(1 << 20)
			for range 3 {
				slow.put("one")
				slow.put("two")
				fast.put("one")
				synctest.Wait()
			}
			wantText(t, slowEnd, events("one", "two", "one", "two", "one", "two"))
			wantText(t, fastEnd, events("one", "one", "one"))
			if slowEnd.sends < 4 || fastEnd.sends != 1 {
				t.Errorf("%d and %d sends could wait", slowEnd.sends, fastEnd.sends)
			}
			if len(s.crews.of[s.stream]) != 1 {
				t.Error("the slow reader is not back")
			}
			s.leave(t)
		})
	}
}

// TestTextThatComesBetweenTheLookAndTheCrewIsSent: nothing else would wake the
// crew for it.
func TestTextThatComesBetweenTheLookAndTheCrewIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(Limits{})
		s.reader(1 << 20) // the crew waits for this one's
		from, to := s.reader(1 << 20)
		from.stream = nil // not live: it leaves
		from.put("one")
		synctest.Wait()
		from.stream = s.stream
		from.asked = func() {
			from.put("three")            // the look is over
			time.Sleep(time.Millisecond) // the crew serves the other, and waits again
		}
		from.put("two")
		time.Sleep(time.Second)
		synctest.Wait()
		if s.readers[1].crew.Load() == nil {
			t.Error("it is not back")
		}
		wantText(t, to, events("one", "two", "three"))
		s.leave(t)
	})
}

func TestTextThatComesDuringAPassReachesWhoWasServedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(Limits{})
		first, firstEnd := s.reader(1 << 20)
		second, secondEnd := s.reader(1 << 20)
		second.polled = func() { first.put("two") }
		first.put("one")
		second.put("one")
		synctest.Wait()
		wantText(t, firstEnd, events("one", "two"))
		wantText(t, secondEnd, events("one"))
		s.leave(t)
	})
}

func TestACrewPingsAndEndsWithTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(Limits{Ping: time.Second, Recheck: time.Hour})
		_, to := s.reader(1 << 20)
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		wantText(t, to, string(sse.Ping)+string(sse.Ping))
		s.end()
		synctest.Wait()
		to.mu.Lock()
		if !to.closed {
			t.Error("the connection is open")
		}
		to.mu.Unlock()
		time.Sleep(time.Minute) // the cut's timer
		s.leave(t)
	})
}
