// Package feedtest lets tests hear what stores tell each other.
package feedtest

import (
	"context"
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
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Notify(ctx, []string{"and that was all"}); err != nil {
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
