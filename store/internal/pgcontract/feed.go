package pgcontract

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/store/feed"
)

// Bus is a store with a change feed.
type Bus interface {
	Notify(ctx context.Context, messages []string) error
	Listen(ctx context.Context, to feed.Listener)
}

// Ear gives what a listener is told to a test.
type Ear chan string

// Connected, Message and Lost make an Ear a feed.Listener.
func (e Ear) Connected()          { e <- "connected" }
func (e Ear) Message(text string) { e <- text }
func (e Ear) Lost(error)          { e <- "lost" }

// Next returns what the listener is told next.
func (e Ear) Next(t *testing.T) string {
	t.Helper()
	select {
	case told := <-e:
		return told
	case <-time.After(time.Minute):
		t.Fatal("nothing is heard")
		return ""
	}
}

// Silent fails the test if the listener was told something, before a message
// that is sent now.
func (e Ear) Silent(t *testing.T, s Bus) {
	t.Helper()
	if err := s.Notify(t.Context(), []string{"and that was all"}); err != nil {
		t.Fatal(err)
	}
	if told := e.Next(t); told != "and that was all" {
		t.Errorf("heard %s", told)
	}
}

// Listens makes a store listen until the test ends.
func Listens(t *testing.T, s Bus) Ear {
	t.Helper()
	e := make(Ear, 100_000)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.Listen(ctx, e) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	if told := e.Next(t); told != "connected" {
		t.Fatal(told)
	}
	return e
}

func testFeed(t *testing.T, open func(testing.TB) *Subject) {
	s := open(t).Store.(Bus)
	ears := []Ear{Listens(t, s), Listens(t, s)}
	want := []string{"one", "two", strings.Repeat("x", feed.MaxMessage), strings.Repeat("漢", feed.MaxMessage/3)}
	if err := s.Notify(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	for _, e := range ears {
		for _, message := range want {
			if told := e.Next(t); told != message {
				t.Errorf("heard %.20s… of %d bytes", told, len(told))
			}
		}
	}
	if err := s.Notify(t.Context(), []string{"fits", strings.Repeat("x", feed.MaxMessage+1)}); err == nil {
		t.Error("a message of 8,000 bytes was sent")
	}
	for _, e := range ears {
		e.Silent(t, s) // all or none
	}
}
