package actor_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
)

// RE-03: nobody hosts it, which is no failure.
func TestWhatNobodyHostsIsAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		begin := time.Now()
		if _, last := drain(p.join(t, "ghost", 0)); last.Kind != plane.KindAbsent || time.Since(begin) != 0 {
			t.Errorf("read %+v after %s", last, time.Since(begin))
		}
		if st := p.edge.Stats(); st.AttachFailed+st.FramesFailed != 0 || st.Attaches != 1 {
			t.Errorf("stats are %+v", st)
		}
	})
}

func TestTwoNodesThatEachTakeTheOtherForTheOwnerAskNoFurther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := newWire(nil)
		p := &pair{owner: newHost(t, func(c *actor.Config) { c.Relay = back.relay() })}
		p.wire = newWire(p.owner.System)
		p.edge = newHost(t, func(c *actor.Config) { c.Node, c.Relay = "n/2", p.wire.relay() })
		back.to = p.edge.System
		if _, last := drain(p.join(t, "m1", 0)); last.Kind != plane.KindAbsent {
			t.Errorf("read %+v", last)
		}
		p.wire.want(t, 1, 0)
		back.want(t, 0, 0)
	})
}

// RE-14: a bus without memory gives what comes from now on, and no open.
func TestABusWithoutMemoryServesWhoWasThereFromTheStart(t *testing.T) {
	for name, tt := range map[string]struct {
		missed int
		text   string
		last   plane.Kind
	}{
		"from before the first token": {0, "abcdef", plane.KindEnd},
		"and not who came later":      {1, "", plane.KindStale},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := newScriptSource()
				h := newHost(t, func(c *actor.Config) {
					c.Relay = &actor.Relay{Attach: func(context.Context, string, int64, int64) (actor.Source, int64, error) {
						return source, 0, nil
					}}
				})
				for _, f := range []plane.Frame{
					{Kind: plane.KindChunk, Seq: 3, Text: "abc"}, {Kind: plane.KindChunk, From: 3, Seq: 6, Text: "def"},
					{Kind: plane.KindEnd, Seq: 6, Status: plane.StatusComplete},
				}[tt.missed:] {
					source.put(item{frame: f})
				}
				c, err := h.Subscribe(t.Context(), actor.Access{Principal: "u1", StreamID: "m1"})
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if text, last := drain(c); text != tt.text || last.Kind != tt.last {
					t.Errorf("read %q, %+v", text, last)
				}
			})
		})
	}
}

func TestAFullNodeAttachesNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, func(c *actor.Config) { c.MaxMirrors = 2 })
		cursors := map[string]*plane.Cursor{}
		for _, id := range []string{"m1", "m2", "m3"} {
			p.owner.open(id, "abc")
			cursors[id] = p.join(t, id, 0)
		}
		for id, want := range map[string]string{"m1": "abc", "m2": "abc", "m3": ""} {
			if text, last := drain(cursors[id]); text != want || want == "" && last.Kind != plane.KindAbsent {
				t.Errorf("%s: read %q, %+v", id, text, last)
			}
		}
		if text, _ := drain(p.join(t, "m1", 0)); text != "abc" { // what it has it serves
			t.Errorf("read %q", text)
		}
	})
}

func TestTextOfOtherNodesIsCountedAndGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := plane.NewBudget(100_000)
		p := newPair(t, func(c *actor.Config) { c.Plane.Budget, c.AttachLinger = budget, -1 })
		s := p.owner.open("m1", "")
		slow, fast := p.join(t, "m1", 0), p.join(t, "m1", 0)
		var got strings.Builder
		for i := range 40 {
			push(t, s, strings.Repeat("x", 10_000))
			synctest.Wait()
			text, last := drain(fast)
			got.WriteString(text)
			if last.Kind == plane.KindStale {
				t.Fatalf("the reader at the tip read %+v after %d", last, i)
			}
			if used := budget.Used(); used > 250_000 {
				t.Fatalf("%d bytes are used", used)
			}
		}
		if got.Len() != 400_000 {
			t.Errorf("read %d units", got.Len())
		}
		if _, last := drain(slow); last.Kind != plane.KindStale {
			t.Errorf("who was behind read %+v", last)
		}
		late := p.join(t, "m1", 0)
		if f, _, _ := late.Poll(); f.Kind != plane.KindStale && f.Kind != plane.KindAbsent {
			t.Errorf("who came late read %+v", f)
		}
		fast.Close()
		synctest.Wait()
		if used := budget.Used(); used != 0 {
			t.Errorf("%d bytes are used when nothing is attached", used)
		}
	})
}

func TestANodeFullOfTextAttachesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, func(c *actor.Config) {
			c.Plane.Budget = plane.NewBudget(1)
			apart(c)
		})
		p.edge.open("local", "abc")
		p.owner.open("m1", "abc")
		if _, last := drain(p.join(t, "m1", 0)); last.Kind != plane.KindAbsent {
			t.Errorf("read %+v", last)
		}
		if c, later := p.edge.Rejoin(actor.Access{StreamID: "m1"}); c != nil || later != nil {
			t.Error("rejoined")
		}
		p.wire.want(t, 0, 0)
	})
}

// RE-08: a mirror keeps a bounded tail, and who is below it reads the durable plane.
func TestAMirrorKeepsItsTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, func(c *actor.Config) { c.MirrorRetain = 1000 })
		s := p.owner.open("m1", "")
		c := p.join(t, "m1", 0)
		text := strings.Repeat("0123456789", 1000)
		for i := range 10 {
			push(t, s, text[1000*i:1000*(i+1)])
			synctest.Wait()
		}
		if _, last := drain(c); last.Kind != plane.KindStale || last.FloorSeq != 9000 {
			t.Errorf("who was behind read %+v", last)
		}
		if got, _ := drain(p.join(t, "m1", 9000)); got != text[9000:] {
			t.Errorf("read %d units of the tail", len(got))
		}
		if _, last := drain(p.join(t, "m1", 8999)); last.Kind != plane.KindStale {
			t.Errorf("below the tail: read %+v", last)
		}
	})
}

// W49, RE-09.
func TestACloseEndsReadersOfOtherNodesStreamsAndTheirSources(t *testing.T) {
	for name, wait := range map[string]time.Duration{"while it is fed": 0, "while it is attached again": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t, nil)
				p.owner.open("m1", "abc")
				c := p.join(t, "m1", 0)
				if wait > 0 {
					p.wire.set(func(w *wire) { w.down = true })
					p.wire.cut()
					time.Sleep(wait)
				}
				if err := p.edge.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if text, last := drain(c); text != "abc" || last.Kind != plane.KindAbsent {
					t.Errorf("read %q, %+v", text, last)
				}
				if _, open := p.wire.attaches(); open != 0 {
					t.Errorf("%d sources are open", open)
				}
			})
		})
	}
}

// W17: nobody waits for ever for an owner's store that hangs.
func TestAReaderElsewhereGetsTheEndOfAStreamWhoseStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		s := p.owner.open("m1", "abc")
		c := p.join(t, "m1", 0)
		p.owner.store.Hang(true)
		if _, err := s.Close(t.Context()); !errors.Is(err, plane.ErrShort) {
			t.Errorf("close answered %v", err)
		}
		synctest.Wait()
		if text, last := drain(c); text != "abc" || last.Kind != plane.KindEnd || last.Status != plane.StatusInterrupted {
			t.Errorf("read %q, %+v", text, last)
		}
	})
}

func TestAHookThatPanicsCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, func(c *actor.Config) { c.Relay.Failed = func(actor.Failure) { panic("hook threw") } })
		s := p.owner.open("m1", "abc")
		c := p.join(t, "m1", 0)
		p.wire.cut()
		synctest.Wait()
		push(t, s, "def")
		synctest.Wait()
		if text, _ := drain(c); text != "abcdef" {
			t.Errorf("read %q", text)
		}
		c.Close()
	})
}

// RE-12: who has no hook finds it in the log.
func TestAFailureWithoutAHookIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		h := newHost(t, func(c *actor.Config) {
			c.Plane.Logger = slog.New(slog.NewTextHandler(&log, nil))
			c.Relay = &actor.Relay{Attach: func(context.Context, string, int64, int64) (actor.Source, int64, error) {
				return nil, 0, errDown
			}}
		})
		if _, last := h.read("m1", 0); last.Kind != plane.KindAbsent {
			t.Errorf("read %+v", last)
		}
		synctest.Wait()
		for _, want := range []string{"phase=attach", "streamId=m1", errDown.Error()} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log is %q, which lacks %q", log.String(), want)
			}
		}
	})
}

func TestAnAttachThatTookTooLongIsToItsRelayAMissedDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var why error
		h := newHost(t, func(c *actor.Config) {
			c.Relay = &actor.Relay{Attach: func(ctx context.Context, _ string, _, _ int64) (actor.Source, int64, error) {
				<-ctx.Done()
				why = context.Cause(ctx)
				return nil, 0, why
			}}
		})
		if c, err := h.Subscribe(t.Context(), actor.Access{Principal: "u1", StreamID: "m1"}); err != nil || c.Stream() != nil {
			t.Errorf("subscribed: %v, %v", c, err)
		}
		synctest.Wait()
		if !errors.Is(why, actor.ErrAttachTimeout) || !errors.Is(why, context.DeadlineExceeded) {
			t.Errorf("it ended by %v", why)
		}
	})
}
