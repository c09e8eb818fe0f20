package actor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

// successor is a system that hosts a stream in a later epoch, with this text.
func successor(t *testing.T, epoch int64, text string) (*host, *plane.Stream) {
	t.Helper()
	h := newHost(t, func(c *actor.Config) { c.Node = "n/9" })
	h.store.Edit("m1", func(r *storetest.Row) { r.Epoch, r.Status = epoch-1, plane.StatusInterrupted })
	return h, h.open("m1", text)
}

func TestALaterEpochThatBeganBelowWhatWasDeliveredIsARewind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		p.owner.open("m1", "abcdef")
		c := p.join(t, "m1", 0)
		synctest.Wait()
		next, _ := successor(t, 2, "abcXYZ")
		p.wire.set(func(w *wire) { w.to = next.System })
		p.wire.cut()
		synctest.Wait()
		if text, last := drain(c); text != "abcdef" || last.Kind != plane.KindStale {
			t.Errorf("read %q, %+v", text, last)
		}
		// It comes back with where it is, and nothing holds it up.
		access := actor.Access{StreamID: "m1", From: 6, Epoch: 1}
		_, later := p.edge.Rejoin(access)
		<-later
		c, _ = p.edge.Rejoin(access)
		f, _, _ := c.Poll()
		if f.Kind != plane.KindOpen || f.From != 0 || f.Epoch != 2 {
			t.Errorf("read %+v, want an open that rewinds", f)
		}
		if text, _ := drain(c); text != "abcXYZ" {
			t.Errorf("read %q", text)
		}
		c.Close()
		if failed := p.wire.failed(); len(failed) != 1 { // the cut
			t.Errorf("failures of %v", failed)
		}
	})
}

func TestALaterEpochThatBeganAtWhatWasDeliveredGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		p.owner.open("m1", "")
		c := p.join(t, "m1", 0)
		synctest.Wait()
		next, s := successor(t, 2, "")
		p.wire.set(func(w *wire) { w.to = next.System })
		p.wire.cut()
		time.Sleep(time.Second)
		push(t, s, "abc")
		synctest.Wait()
		if f, _, _ := c.Poll(); f.Kind != plane.KindOpen {
			t.Errorf("read %+v", f)
		}
		if f, _, _ := c.Poll(); f.Text != "abc" || f.Epoch != 2 {
			t.Errorf("read %+v", f)
		}
		c.Close()
	})
}

func TestAZombieIsNotAttachedAgain(t *testing.T) {
	for name, blind := range map[string]bool{"that is told the epoch": false, "that is not": true} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { attachZombie(t, blind) }) })
	}
}

func attachZombie(t *testing.T, blind bool) {
	p := newPair(t, nil)
	zombie := p.owner.open("m1", "abc")
	next, s := successor(t, 3, "abc")
	p.wire.set(func(w *wire) { w.to = next.System })
	c := p.join(t, "m1", 0)
	synctest.Wait()
	p.wire.set(func(w *wire) { w.to, w.blind = p.owner.System, blind })
	p.wire.cut()
	push(t, zombie, "ZOMBIE")
	time.Sleep(time.Second)
	p.wire.set(func(w *wire) { w.to = next.System })
	push(t, s, "def")
	time.Sleep(time.Second)
	if text, last := drain(c); text != "abcdef" || last.Kind == plane.KindStale {
		t.Errorf("read %q, %+v", text, last)
	}
	if st := p.edge.Stats(); (st.AttachFailed > 0) != blind || st.Reattached != 1 {
		t.Errorf("stats are %+v", st)
	}
	c.Close()
}

func TestAReaderWhoHasSeenALaterEpochIsNotGivenAnOlderOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		p.owner.open("m1", "abcdef")
		c := p.join(t, "m1", 0)
		later, err := p.edge.Subscribe(t.Context(), actor.Access{Principal: "u1", StreamID: "m1", From: 3, Epoch: 2})
		if err != nil {
			t.Fatal(err)
		}
		if _, last := drain(later); last.Kind != plane.KindAbsent {
			t.Errorf("read %+v", last)
		}
		if text, _ := drain(c); text != "abcdef" {
			t.Errorf("the other read %q", text)
		}
		c.Close()
	})
}

func TestAReaderOfAnOlderEpochStartsOverOnAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		next, _ := successor(t, 2, "abcdef")
		p.wire.set(func(w *wire) { w.to = next.System })
		for range 2 { // the first attaches, the second finds it
			c, err := p.edge.Subscribe(t.Context(), actor.Access{Principal: "u1", StreamID: "m1", From: 3, Epoch: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if text, _ := drain(c); text != "abcdef" {
				t.Errorf("read %q", text)
			}
		}
		p.wire.want(t, 1, 1)
	})
}

// W32: the epoch is told with the frames, too.
func TestTextOfTwoProducersIsNeverMixed(t *testing.T) {
	for name, twist := range map[string]func(plane.Frame) plane.Frame{
		"of another epoch": func(f plane.Frame) plane.Frame { f.Epoch = 2; return f },
		"of the same epoch": func(f plane.Frame) plane.Frame {
			f.From, f.Text = 0, "abcXYZ"
			return f
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t, nil)
				p.wire.twist = func(f plane.Frame) ([]plane.Frame, time.Duration) {
					if f.Kind == plane.KindChunk && f.From == 6 {
						f.From, f.Text, f.Seq = 6, "ghi", 9
						if f = twist(f); f.From == 0 {
							f.Seq = 6
						}
					}
					return []plane.Frame{f}, 0
				}
				s := p.owner.open("m1", "abcdef")
				c := p.join(t, "m1", 0)
				synctest.Wait()
				push(t, s, "ghi")
				synctest.Wait()
				if text, last := drain(c); text != "abcdef" || last.Kind != plane.KindStale || last.FloorSeq != 6 {
					t.Errorf("read %q, %+v", text, last)
				}
				if got := p.wire.failed(); len(got) != 1 || got[0] != actor.PhaseFrames {
					t.Errorf("failures of %v", got)
				}
				p.wire.want(t, 1, 0)
			})
		})
	}
}
