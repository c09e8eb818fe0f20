package actor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

// apart gives the edge a store of its own, so that it can open what the owner has.
func apart(c *actor.Config) { c.Plane.Store = storetest.NewMemory() }

func TestAStreamThatOpensHereDuringAnAttachWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, apart)
		p.wire.silent = true
		p.owner.open("m1", "elsewhere")
		joined := make(chan *plane.Cursor)
		go func() { joined <- p.join(t, "m1", 0) }()
		time.Sleep(actor.DefaultAttachWindow / 2)
		s := p.edge.open("m1", "here")
		begin := time.Now()
		c := <-joined
		if c.Stream() != &s.Live || time.Since(begin) != 0 {
			t.Errorf("the reader did not join what is here, or waited %s", time.Since(begin))
		}
		synctest.Wait()
		p.wire.want(t, 1, 0)
		c.Close()
	})
}

func TestReadersOfAnAttachComeHomeWhenTheStreamOpensHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, apart)
		p.owner.open("m1", "abc")
		c := p.join(t, "m1", 0)
		synctest.Wait()
		p.edge.open("m1", "abcdef")
		synctest.Wait()
		if text, last := drain(c); text != "abc" || last.Kind != plane.KindStale {
			t.Errorf("read %q, %+v", text, last)
		}
		c, later := p.edge.Rejoin(actor.Access{StreamID: "m1", From: 3, Epoch: 1})
		if c == nil || later != nil {
			t.Fatal("it can be joined at once")
		}
		if text, _ := drain(c); text != "def" {
			t.Errorf("read %q", text)
		}
		c.Close()
		p.wire.want(t, 1, 0)
	})
}

// W09: no attach goes ahead of an open that is being decided, and one that is lost
// leaves nobody waiting. W10: nor does one that a drain overtakes, which takes nothing
// of the owner's either (W01).
func TestWhoWaitedForAnOpenThatIsLostIsServedFromElsewhere(t *testing.T) {
	for name, tt := range map[string]struct {
		lose func(*pair)
		want plane.Kind
	}{
		"because another has it": {func(*pair) {}, plane.KindEnd},
		"because of a drain": {func(p *pair) {
			go func() {
				if err := p.edge.Drain(context.Background()); err != nil {
					p.edge.t.Error(err)
				}
			}()
		}, plane.KindEnd},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t, nil)
				s := p.owner.open("m1", "abc")
				p.owner.store.Latency(0, 500*time.Millisecond)
				refused := make(chan error, 1)
				go func() {
					_, err := p.edge.Open(context.Background(), plane.Claim{ID: "m1"})
					refused <- err
				}()
				synctest.Wait()
				joined := make(chan *plane.Cursor)
				go func() { joined <- p.join(t, "m1", 0) }()
				synctest.Wait()
				p.wire.want(t, 0, 0)
				tt.lose(p)
				c := <-joined
				if err := <-refused; !errors.Is(err, plane.ErrHeld) && !errors.Is(err, plane.ErrDraining) {
					t.Errorf("open answered %v", err)
				}
				p.owner.store.Latency(0, 0)
				if _, err := s.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if text, last := drain(c); text != "abc" || last.Kind != tt.want {
					t.Errorf("read %q, %+v", text, last)
				}
			})
		})
	}
}

// W11: what is hosted here is looked up after the authorizer has answered, and so
// is what is attached.
func TestWhatHappensWhileTheAuthorizerThinksIsSeen(t *testing.T) {
	for name, meanwhile := range map[string]func(*pair){
		"the stream opens here": func(p *pair) { p.edge.open("m1", "abc") },
		"it opens elsewhere":    func(p *pair) { p.owner.open("m1", "abc") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t, func(c *actor.Config) {
					c.Authorize = func(context.Context, actor.Access) (bool, error) {
						time.Sleep(time.Second)
						return true, nil
					}
				})
				joined := make(chan *plane.Cursor)
				go func() { joined <- p.join(t, "m1", 0) }()
				synctest.Wait()
				meanwhile(p)
				c := <-joined
				synctest.Wait()
				if text, _ := drain(c); text != "abc" {
					t.Errorf("read %q", text)
				}
				c.Close()
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		p.owner.open("m1", "abc")
		if err := p.edge.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if _, last := drain(p.join(t, "m1", 0)); last.Kind != plane.KindAbsent {
			t.Errorf("a closed node answers %+v", last)
		}
		p.wire.want(t, 0, 0)
	})
}

// A: nothing is looked for in the cluster for who may not read.
func TestADenialReachesNoRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		p.owner.open("m1", "abc")
		_, err := p.edge.Subscribe(t.Context(), actor.Access{Principal: "intruder", StreamID: "m1"})
		if !errors.Is(err, plane.ErrDenied) {
			t.Errorf("answered %v", err)
		}
		p.wire.want(t, 0, 0)
	})
}

// W43: by the object, not by its name.
func TestTheLingerOfAnOldAttachEndsNoNewOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		s := p.owner.open("m1", "abc")
		c := p.join(t, "m1", 0)
		c.Close() // its linger begins
		time.Sleep(actor.DefaultAttachLinger / 2)
		p.owner.store.Delete("m1")
		if _, err := s.Flush(t.Context()); err == nil { // fenced: all that is attached ends
			t.Fatal("flushed without a row")
		}
		time.Sleep(actor.DefaultAttachWindow)
		p.owner.open("m1", "new")
		c = p.join(t, "m1", 0)
		time.Sleep(actor.DefaultAttachLinger)
		synctest.Wait()
		if _, open := p.wire.attaches(); open != 1 {
			t.Errorf("%d sources are open", open)
		}
		if text, _ := drain(c); text != "new" {
			t.Errorf("read %q", text)
		}
		c.Close()
	})
}
