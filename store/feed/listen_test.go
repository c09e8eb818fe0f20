package feed_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/store/feed"
)

// line is a session of a test.
type line struct {
	messages chan string
	dead     chan struct{} // closed when it is cut
	frozen   bool          // it answers no pings
	closed   chan struct{}
}

func newLine() *line {
	return &line{messages: make(chan string), dead: make(chan struct{}), closed: make(chan struct{})}
}

var errCut = errors.New("cut")

func (l *line) Receive(ctx context.Context) (string, error) {
	select {
	case m := <-l.messages:
		return m, nil
	case <-l.dead:
		return "", errCut
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (l *line) Ping(ctx context.Context) error {
	if l.frozen {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (l *line) Close() { close(l.closed) }

// ear writes down what a listener is told, and when.
type ear struct {
	began time.Time
	told  []string
}

func (e *ear) add(what string) {
	e.told = append(e.told, fmt.Sprintf("%s %v", what, time.Since(e.began).Round(time.Second)))
}

func (e *ear) Connected()          { e.add("connected") }
func (e *ear) Message(text string) { e.add(text) }
func (e *ear) Lost(error)          { e.add("lost") }

func listen(dial func(context.Context) (feed.Session, error)) (e *ear, stop func()) {
	e = &ear{began: time.Now()}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { feed.Listen(ctx, dial, e) })
	return e, func() {
		cancel()
		running.Wait()
	}
}

func TestASessionThatIsQuietIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine()
		e, stop := listen(func(context.Context) (feed.Session, error) { return l, nil })
		time.Sleep(time.Hour)
		l.messages <- "hello"
		synctest.Wait()
		stop()
		if got := strings.Join(e.told, ", "); got != "connected 0s, hello 1h0m0s" {
			t.Error(got)
		}
		<-l.closed
	})
}

func TestASessionThatIsLostIsReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		lose    func(*line)
		noticed time.Duration
	}{
		"cut":    {func(l *line) { close(l.dead) }, 0},
		"frozen": {func(l *line) { l.frozen = true }, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lines := []*line{newLine(), newLine()}
				dials := 0
				e, stop := listen(func(context.Context) (feed.Session, error) {
					dials++
					return lines[dials-1], nil
				})
				time.Sleep(time.Hour)
				c.lose(lines[0])
				time.Sleep(c.noticed + time.Second)
				lines[1].messages <- "again"
				synctest.Wait()
				stop()
				got := fmt.Sprint(e.told)
				for _, what := range []string{"connected 0s", "lost 1h0m", "connected 1h0m", "again 1h0m"} {
					if !strings.Contains(got, what) {
						t.Errorf("%s is not in %s", what, got)
					}
				}
				if len(e.told) != 4 {
					t.Error(got)
				}
				<-lines[0].closed
				<-lines[1].closed
			})
		})
	}
}

func TestADatabaseThatIsDownIsAskedLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		l := newLine()
		var asked []time.Time
		e, stop := listen(func(ctx context.Context) (feed.Session, error) {
			asked = append(asked, time.Now())
			if up.Load() {
				return l, nil
			}
			if len(asked)%2 == 0 { // one that does not answer
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return nil, errCut
		})
		time.Sleep(time.Hour)
		up.Store(true)
		time.Sleep(time.Minute)
		stop()
		pauses := make(map[time.Duration]bool)
		for n := range len(asked) - 1 {
			pause := asked[n+1].Sub(asked[n])
			if pauses[pause] = true; pause > 41*time.Second {
				t.Errorf("it was asked again after %v", pause)
			}
		}
		if len(pauses) < len(asked)/2 { // other nodes ask as well
			t.Errorf("it was asked %d times with %d different pauses", len(asked), len(pauses))
		}
		if len(asked) < 90 || len(asked) > 500 {
			t.Errorf("it was asked %d times", len(asked))
		}
		// Lost is said once, however often it was tried.
		if len(e.told) != 2 || !strings.HasPrefix(e.told[0], "lost 0s") || !strings.HasPrefix(e.told[1], "connected 1h0m") {
			t.Errorf("told: %v", e.told)
		}
	})
}
