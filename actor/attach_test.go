package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
)

// RE-02, W30: an offset past what is produced, too.
func TestAReaderOnAnotherNodeIsServedAsOnTheOwner(t *testing.T) {
	for _, from := range []int64{0, 2, 6, 6 + 7, 1 << 40, -5} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t, nil)
			s := p.owner.open("m1", "abcdef")
			c := p.join(t, "m1", from)
			local, err := p.owner.Subscribe(t.Context(), actor.Access{Principal: "u1", StreamID: "m1", From: from})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			push(t, s, "ghi")
			if _, err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got, want := frames(c), frames(local); !slices.Equal(got, want) {
				t.Errorf("from %d: read %v, on the owner %v", from, got, want)
			}
			if asked := p.wire.asked[0].From; asked != max(0, from) {
				t.Errorf("from %d: the relay was asked for %d", from, asked)
			}
		})
	}
}

// frames takes all frames that are there.
func frames(c *plane.Cursor) (all []string) {
	for {
		f, ok, _ := c.Poll()
		if !ok {
			return all
		}
		all = append(all, string(plane.AppendJSON(nil, f)))
	}
}

func TestReadersOfAStreamShareOneAttachAndTheLastOneEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		s := p.owner.open("m1", "abc")
		readers := make([]*plane.Cursor, 1000)
		joined := make(chan struct{})
		for i := range readers {
			go func() { readers[i] = p.join(t, "m1", int64(i%4)); joined <- struct{}{} }()
		}
		for range readers {
			<-joined
		}
		push(t, s, "def")
		synctest.Wait()
		// The first of them decided from where the text is kept.
		first := p.wire.asked[0].From
		for i, c := range readers {
			want := "abcdef"[max(first, int64(i%4)):]
			if text, last := drain(c); int64(i%4) >= first && text != want || int64(i%4) < first && last.Kind != plane.KindStale {
				t.Fatalf("reader %d read %q, %+v", i, text, last)
			}
		}
		p.wire.want(t, 1, 1)
		if st := p.edge.Stats(); st.Attached != 1 || st.Attaches != 1 || st.Readers == 0 {
			t.Errorf("stats are %+v", st)
		}
		for _, c := range readers {
			c.Close()
		}
		time.Sleep(actor.DefaultAttachLinger - 1)
		synctest.Wait()
		p.wire.want(t, 1, 1)
		c := p.join(t, "m1", 3) // a reload
		time.Sleep(time.Minute)
		p.wire.want(t, 1, 1)
		c.Close()
		time.Sleep(actor.DefaultAttachLinger)
		synctest.Wait()
		p.wire.want(t, 1, 0)
		if st := p.edge.Stats(); st.Attached != 0 || st.Readers != 0 {
			t.Errorf("stats are %+v", st)
		}
		if s.State().Over || s.State().Readers != 0 { // their leaving is not the producer's affair
			t.Errorf("the stream is %+v", s.State())
		}
	})
}

// W33.
func TestAReaderThatGoesAwayDuringAnAttachEndsItForNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		p.owner.open("m1", "abc")
		p.wire.twist = func(f plane.Frame) ([]plane.Frame, time.Duration) { return []plane.Frame{f}, time.Second }
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := p.edge.Subscribe(ctx, actor.Access{Principal: "u1", StreamID: "m1"})
			left <- err
		}()
		synctest.Wait()
		stayed := make(chan *plane.Cursor)
		go func() { stayed <- p.join(t, "m1", 0) }()
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who left was answered %v", err)
		}
		c := <-stayed
		time.Sleep(5 * time.Second)
		if text, _ := drain(c); text != "abc" {
			t.Errorf("who stayed read %q", text)
		}
		p.wire.want(t, 1, 1)
		c.Close()

		go func() {
			_, err := p.edge.Subscribe(ctx, actor.Access{Principal: "u1", StreamID: "m2"})
			left <- err
		}()
		<-left
		p.owner.open("m3", "abc")
		ctx, leave = context.WithCancel(t.Context())
		go func() {
			_, err := p.edge.Subscribe(ctx, actor.Access{Principal: "u1", StreamID: "m3"})
			left <- err
		}()
		synctest.Wait()
		leave() // nobody else waits: the attach ends, too
		<-left
		time.Sleep(actor.DefaultAttachLinger)
		synctest.Wait()
		if _, open := p.wire.attaches(); open != 0 {
			t.Errorf("%d sources are open", open)
		}
	})
}

func TestWhoComesDuringAnAttachThatWasDesertedIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		p.owner.open("m1", "abc")
		p.wire.twist = func(f plane.Frame) ([]plane.Frame, time.Duration) {
			return []plane.Frame{f}, actor.DefaultAttachLinger * 3 / 2
		}
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := p.edge.Subscribe(ctx, actor.Access{Principal: "u1", StreamID: "m1"})
			left <- err
		}()
		synctest.Wait()
		leave()
		<-left
		time.Sleep(actor.DefaultAttachLinger / 2)
		c := p.join(t, "m1", 0)
		if f, _, _ := c.Poll(); f.Kind != plane.KindOpen {
			t.Errorf("read %+v", f)
		}
		p.wire.want(t, 1, 1)
		c.Close()
	})
}

// RE-05: whether it is the attach that hangs, or its first frame.
func TestAnOwnerThatHangsIsAbsentInTime(t *testing.T) {
	for name, hang := range map[string]func(*pair, *actor.Relay){
		"in the attach": func(p *pair, r *actor.Relay) {
			attach := r.Attach
			r.Attach = func(_ context.Context, id string, from, epoch int64) (actor.Source, int64, error) {
				time.Sleep(time.Minute) // and looks at no context
				return attach(context.Background(), id, from, epoch)
			}
		},
		"before its first frame": func(p *pair, _ *actor.Relay) { p.wire.silent = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var relay *actor.Relay
				p := newPair(t, func(c *actor.Config) { relay = c.Relay })
				hang(p, relay)
				p.owner.open("m1", "abc")
				begin := time.Now()
				_, last := drain(p.join(t, "m1", 0))
				if waited := time.Since(begin); last.Kind != plane.KindAbsent || waited > actor.DefaultAttachWindow {
					t.Errorf("read %+v after %s", last, waited)
				}
				synctest.Wait()
				if got := p.wire.failed(); !slices.Equal(got, []actor.Phase{actor.PhaseAttach}) {
					t.Errorf("failures of %v", got)
				}
				time.Sleep(2 * time.Minute)
				p.wire.want(t, 1, 0) // the late source was closed
			})
		})
	}
}

func TestABrokenAttachIsReplacedUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		s := p.owner.open("m1", "a😀b")
		c := p.join(t, "m1", 0)
		want := "a😀b"
		for i := range 20 {
			p.wire.set(func(w *wire) { w.down = i%3 == 0 })
			p.wire.cut()
			delta := fmt.Sprintf("%d😀", i)
			push(t, s, delta)
			want += delta
			time.Sleep(time.Second)
			p.wire.set(func(w *wire) { w.down = false })
			time.Sleep(2 * time.Second)
		}
		if _, err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		text, last := drain(c)
		if text != want || last.Kind != plane.KindEnd {
			t.Errorf("read %q, %+v; want %q", text, last, want)
		}
		if st := p.edge.Stats(); st.Reattached != 20 || st.FramesFailed != 20 || st.AttachFailed == 0 {
			t.Errorf("stats are %+v", st)
		}
		p.wire.want(t, int(p.edge.Stats().Attaches), 0)
	})
}

func TestAnAttachThatCannotBeReplacedIsStaleAfterTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		s := p.owner.open("m1", "abc")
		if _, err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		push(t, s, "def")
		c := p.join(t, "m1", 0)
		synctest.Wait()
		if text, _ := drain(c); text != "abcdef" {
			t.Fatalf("read %q", text)
		}
		p.wire.set(func(w *wire) { w.down = true })
		p.wire.cut()
		time.Sleep(actor.DefaultAttachWindow - time.Millisecond)
		synctest.Wait()
		if f, ok, _ := c.Poll(); ok {
			t.Errorf("read %+v before the window is over", f)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		// W31: what is durable is not what was delivered.
		if f, ok, _ := c.Poll(); !ok || f.Kind != plane.KindStale || f.DurableSeq != 3 || f.FloorSeq != 6 {
			t.Errorf("read %+v", f)
		}
		asked, _ := p.wire.attaches()
		if asked < 4 || asked > 12 { // at once, then after 50 ms, doubled, with jitter
			t.Errorf("asked %d times in the window", asked)
		}
		access := actor.Access{StreamID: "m1", From: 6, Epoch: 1}
		for range 600 { // a minute of somebody who asks again
			if c, _ := p.edge.Rejoin(access); c != nil {
				t.Fatal("rejoined what cannot be attached")
			}
			time.Sleep(100 * time.Millisecond)
		}
		again, _ := p.wire.attaches()
		if again -= asked; again < 4 || again > 16 {
			t.Errorf("asked %d more times in a minute", again)
		}
		p.wire.set(func(w *wire) { w.down = false })
		p.edge.Expect("m1")
		if c, later := p.edge.Rejoin(access); c != nil || later == nil {
			t.Fatal("there is nothing to wait for")
		} else {
			<-later
		}
		c, _ = p.edge.Rejoin(access)
		push(t, s, "ghi")
		synctest.Wait()
		if text, _ := drain(c); text != "ghi" {
			t.Errorf("read %q after the rejoin", text)
		}
		c.Close()
	})
}

// An owner that closes says absent, one that lost its row, or hands it over, stale.
func TestAnOwnerThatIsNoMoreIsLookedForElsewhere(t *testing.T) {
	for name, end := range map[string]func(*host){
		"closed": func(h *host) {
			if err := h.Close(context.Background()); err != nil {
				h.t.Error(err)
			}
		},
		"fenced": func(h *host) {
			h.take("m1")
			s, _ := h.Stream("m1")
			if _, err := s.Flush(context.Background()); !errors.Is(err, plane.ErrFenced) {
				h.t.Errorf("flush answered %v", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t, nil)
				p.owner.open("m1", "abc")
				other := newHost(t, func(c *actor.Config) { c.Node = "n/3" }) // with the same text
				taken := other.open("m1", "abc")
				c := p.join(t, "m1", 0)
				synctest.Wait()
				p.wire.set(func(w *wire) { w.to = other.System })
				end(p.owner)
				push(t, taken, "def")
				time.Sleep(time.Second)
				if text, last := drain(c); text != "abcdef" || last.Kind != plane.KindChunk && last.Kind != plane.KindDurable {
					t.Errorf("read %q, %+v", text, last)
				}
				c.Close()
			})
		})
	}
}

func TestAnEndReachesWhoComesWithinTheLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		s := p.owner.open("m1", "abc")
		c := p.join(t, "m1", 0)
		if _, err := s.Fail(t.Context(), "boom"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		p.wire.want(t, 1, 0)
		late := p.join(t, "m1", 1)
		for _, c := range []*plane.Cursor{c, late} {
			text, last := drain(c)
			if !strings.HasSuffix("abc", text) || last.Kind != plane.KindEnd || last.Error != "boom" {
				t.Errorf("read %q, %+v", text, last)
			}
		}
		time.Sleep(actor.DefaultAttachLinger)
		synctest.Wait()
		if st := p.edge.Stats(); st.Attached != 0 {
			t.Errorf("stats are %+v", st)
		}
	})
}
