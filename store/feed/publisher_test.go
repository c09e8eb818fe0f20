package feed_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/feed"
)

// publisher runs a publisher in a test's bubble, until stop.
func publisher(t *testing.T, cfg feed.PublisherConfig) (p *feed.Publisher, stop func()) {
	t.Helper()
	p, err := feed.NewPublisher(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	return p, func() {
		cancel()
		running.Wait()
	}
}

// changes are what the messages say, in their order.
func (r *recorder) changes() (all []feed.Change) {
	for _, m := range r.messages {
		all = append(all, m.envelope.Changes...)
	}
	return all
}

func TestAPublisherNeedsASend(t *testing.T) {
	for _, cfg := range []feed.PublisherConfig{{}, {Send: new(recorder).send, Pause: -1}} {
		if _, err := feed.NewPublisher(cfg); !errors.Is(err, plane.ErrConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

func TestAChangeGoesAtOnceAndABatchFormsWhileOneIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out recorder
		began := time.Now()
		p, stop := publisher(t, feed.PublisherConfig{Send: func(ctx context.Context, messages []string) error {
			time.Sleep(100 * time.Millisecond)
			return out.send(ctx, messages)
		}})
		p.Publish(feed.Change{ID: "a", Seq: 1})
		synctest.Wait()
		for n := range int64(10) {
			p.Publish(feed.Change{ID: "a", Seq: 2 + n})
			p.Publish(feed.Change{ID: "b", Seq: 20 - n})
		}
		p.Publish(feed.Change{ID: "c", Seq: 7, Epoch: 2, Cancel: true})
		time.Sleep(time.Second)
		stop()
		want := []feed.Change{{ID: "a", Seq: 1}, {ID: "a", Seq: 11}, {ID: "b", Seq: 20}, {ID: "c", Seq: 7, Epoch: 2, Cancel: true}}
		if got := out.changes(); fmt.Sprint(got) != fmt.Sprint(want) || len(out.messages) != 2 {
			t.Errorf("%d messages, %+v", len(out.messages), got)
		}
		if took := out.calls[1].Sub(began); took != 220*time.Millisecond {
			t.Errorf("the second went out after %v", took)
		}
		if s := p.Stats(); s.Published != 4 || s.Messages != 2 || s.Superseded != 18 || s.OutOfOrder != 9 {
			t.Errorf("%+v", s)
		}
	})
}

func TestWhatAStreamsChangesSayTogether(t *testing.T) {
	for name, c := range map[string]struct{ older, newer, want feed.Change }{
		"a longer text":           {feed.Change{Seq: 1}, feed.Change{Seq: 2}, feed.Change{Seq: 2}},
		"one that is late":        {feed.Change{Seq: 2}, feed.Change{Seq: 1}, feed.Change{Seq: 2}},
		"one that is late by far": {feed.Change{Seq: 2, Status: plane.StatusComplete}, feed.Change{Seq: 1}, feed.Change{Seq: 2, Status: plane.StatusComplete}},
		"a cancel, and more text": {feed.Change{Seq: 1, Epoch: 1, Cancel: true}, feed.Change{Seq: 2}, feed.Change{Seq: 2, Epoch: 1, Cancel: true}},
		"a stream that begins anew": {
			feed.Change{Seq: 0, Epoch: 1, Status: plane.StatusInterrupted, Cancel: true},
			feed.Change{Epoch: 2, Status: plane.StatusStreaming},
			feed.Change{Epoch: 2, Status: plane.StatusStreaming},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out recorder
				p, stop := publisher(t, feed.PublisherConfig{Send: out.send})
				c.older.ID, c.newer.ID, c.want.ID = "s", "s", "s"
				p.Publish(c.older)
				p.Publish(c.newer)
				synctest.Wait()
				stop()
				if got := out.changes(); len(got) != 1 || got[0] != c.want {
					t.Errorf("got %+v", got)
				}
			})
		})
	}
}

func TestWhateverTheIdsNoMessageIsTooLong(t *testing.T) {
	for name, id := range map[string]func(n int) string{
		"short":                    func(n int) string { return fmt.Sprint("m", n) },
		"of 256 bytes":             func(n int) string { return fmt.Sprintf("%0256d", n) },
		"of 256 bytes, characters": func(n int) string { return fmt.Sprintf("%04d", n) + strings.Repeat("漢", 84) },
		"to be escaped":            func(n int) string { return fmt.Sprintf("%04d", n) + strings.Repeat("\"\\\u2028<\x01", 36) },
		"all controls":             func(n int) string { return fmt.Sprintf("%04d", n) + strings.Repeat("\x01", 252) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out recorder
				p, stop := publisher(t, feed.PublisherConfig{Send: out.send})
				const streams = 2000
				for n := range streams {
					p.Publish(feed.Change{ID: id(n), Seq: 1<<63 - 1, Epoch: 1<<63 - 1, Status: plane.StatusInterrupted, Cancel: true})
				}
				time.Sleep(time.Minute)
				stop()
				for n, c := range out.changes() {
					if c.ID != id(n) || c.Seq != 1<<63-1 || !c.Cancel {
						t.Fatalf("change %d is %+v", n, c)
					}
				}
				number := int64(0)
				for _, m := range out.messages {
					if len(m.envelope.Changes) > 0 {
						number++
					}
					if m.envelope.Seq != number || m.envelope.Producer != p.ID() || len(m.text) > feed.MaxMessage {
						t.Fatalf("a message of %d bytes from %q, numbered %d, wanted %d", len(m.text), m.envelope.Producer, m.envelope.Seq, number)
					}
				}
				if s := p.Stats(); s.Published != streams || s.Messages != number || s.Skipped+s.Dropped != 0 {
					t.Errorf("%+v", s)
				}
				t.Logf("%d messages", number)
			})
		})
	}
}

func TestAChangeThatNoMessageCanHoldIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out recorder
		p, stop := publisher(t, feed.PublisherConfig{Send: out.send})
		for _, c := range []feed.Change{
			{ID: ""}, {ID: "\xff"}, {ID: "s", Seq: -1}, {ID: "s", Status: "other"}, {ID: strings.Repeat("a", 8000)}, {ID: strings.Repeat("\x01", 2000)},
		} {
			p.Publish(c)
		}
		p.Publish(feed.Change{ID: strings.Repeat("a", 7000)})
		synctest.Wait()
		stop()
		if s := p.Stats(); s.Skipped != 6 || s.Published != 1 || len(out.messages) != 1 {
			t.Errorf("%+v, %d messages", s, len(out.messages))
		}
	})
}

func TestWhatCouldNotBeSentIsSentLaterUnderTheSameNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := recorder{failures: 10}
		p, stop := publisher(t, feed.PublisherConfig{Send: out.send})
		p.Publish(feed.Change{ID: "a", Seq: 1})
		p.Publish(feed.Change{ID: "b", Seq: 1})
		time.Sleep(time.Second)
		p.Publish(feed.Change{ID: "c", Seq: 1})
		p.Publish(feed.Change{ID: "a", Seq: 2, Status: plane.StatusComplete})
		time.Sleep(time.Minute)
		stop()
		if out.failures != 0 {
			t.Fatal("it gave up")
		}
		want := []feed.Change{{ID: "b", Seq: 1}, {ID: "c", Seq: 1}, {ID: "a", Seq: 2, Status: plane.StatusComplete}}
		got := out.messages[0].envelope
		if len(got.Changes) != 3 || got.Seq != 1 {
			t.Fatalf("%+v", got)
		}
		for _, c := range want {
			if !strings.Contains(fmt.Sprint(got.Changes), fmt.Sprint(c)) {
				t.Errorf("%+v is not in %+v", c, got.Changes)
			}
		}
		for n := range 9 {
			if gap := out.calls[n+1].Sub(out.calls[n]); gap > 5*time.Second+time.Millisecond {
				t.Errorf("try %d was %v after the last", n+1, gap)
			}
		}
	})
}

func TestAnOutageTakesBoundedMemoryAndShowsAsAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := recorder{failures: 1 << 30}
		p, stop := publisher(t, feed.PublisherConfig{Send: out.send, Streams: 10})
		p.Publish(feed.Change{ID: "s", Seq: 1})
		time.Sleep(time.Minute)
		for n := range 1000 {
			p.Publish(feed.Change{ID: fmt.Sprint("s", n), Seq: int64(n)})
			p.Publish(feed.Change{ID: "s", Seq: int64(n)})
		}
		out.fail(0)
		time.Sleep(time.Minute)
		p.Publish(feed.Change{ID: "t", Seq: 1})
		time.Sleep(time.Second)
		stop()
		if s := p.Stats(); s.Dropped < 990 || s.Published > 11 || s.Failed == 0 {
			t.Errorf("%+v", s)
		}
		missed := 0
		r := receiver(t, feed.ReceiverConfig{Missed: func() { missed++ }})
		time.Sleep(time.Minute)
		for _, m := range out.messages {
			r.Message(m.text)
		}
		if missed != 1 {
			t.Errorf("the receiver missed something %d times", missed)
		}
	})
}

func TestASendThatWasDoneAndFailedIsNoGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out recorder
		calls := 0
		p, stop := publisher(t, feed.PublisherConfig{Send: func(ctx context.Context, messages []string) error {
			calls++
			return errors.Join(out.send(ctx, messages), map[bool]error{true: errBus}[calls%3 == 2])
		}})
		for n := range int64(50) {
			p.Publish(feed.Change{ID: "s", Seq: n})
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Second)
		stop()
		seen := int64(0)
		r := receiver(t, feed.ReceiverConfig{
			Changed: func(c feed.Change) { seen = max(seen, c.Seq) },
			Missed:  func() { t.Error("something was missed") },
		})
		time.Sleep(time.Minute)
		for _, m := range out.messages {
			r.Message(m.text)
		}
		if s := r.Stats(); seen != 49 || s.OutOfOrder == 0 {
			t.Errorf("%+v, up to %d", s, seen)
		}
	})
}

func TestWhatIsLeftIsSentAtTheEndAndNoLongerThanTwoSeconds(t *testing.T) {
	for name, hangs := range map[string]bool{"to a bus that works": false, "to one that hangs": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out recorder
				p, stop := publisher(t, feed.PublisherConfig{Send: func(ctx context.Context, messages []string) error {
					if hangs {
						<-ctx.Done()
						return ctx.Err()
					}
					return out.send(ctx, messages)
				}})
				p.Publish(feed.Change{ID: "first", Seq: 1})
				synctest.Wait()
				for n := range 10_000 {
					p.Publish(feed.Change{ID: fmt.Sprint("s", n), Seq: 1})
				}
				began := time.Now()
				stop()
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("the end took %v", took)
				}
				if got := len(out.changes()); !hangs && got != 10_001 {
					t.Errorf("%d changes were sent", got)
				}
			})
		})
	}
}

func TestPublishingWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := publisher(t, feed.PublisherConfig{Streams: 100, Send: func(ctx context.Context, _ []string) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		began := time.Now()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for n := range 1000 {
					p.Publish(feed.Change{ID: fmt.Sprint("s", n), Seq: 1})
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
		stop()
	})
}

func TestTheNewestNumberIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out recorder
		p, stop := publisher(t, feed.PublisherConfig{Send: out.send})
		time.Sleep(time.Minute)
		if len(out.messages) != 0 {
			t.Errorf("%d messages before the first change", len(out.messages))
		}
		p.Publish(feed.Change{ID: "s", Seq: 1})
		time.Sleep(time.Minute)
		stop()
		if len(out.messages) < 10 || len(out.messages) > 13 {
			t.Errorf("%d messages", len(out.messages))
		}
		for _, m := range out.messages[1:] {
			if m.envelope.Seq != 1 || len(m.envelope.Changes) != 0 {
				t.Errorf("a beat says %s", m.text)
			}
		}
	})
}

func BenchmarkPublish(b *testing.B) {
	p, err := feed.NewPublisher(feed.PublisherConfig{Send: func(context.Context, []string) error { return nil }})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	ids := make([]string, 10_000)
	for n := range ids {
		ids[n] = fmt.Sprint("stream-", n)
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		p.Publish(feed.Change{ID: ids[n%len(ids)], Seq: int64(n)})
	}
	cancel()
	running.Wait()
}
