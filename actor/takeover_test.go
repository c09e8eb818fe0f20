package actor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/storetest"
)

// bereft are hosts that share an estate in which the lease of the first, n/1, is over.
func bereft(t *testing.T, count int) ([]*host, *estate) {
	t.Helper()
	e := &estate{tardy: &tardy{Memory: storetest.NewMemory()}, lapse: map[string]bool{"n/1": true}}
	var hosts []*host
	for n := range count {
		h := newHost(t, func(c *actor.Config) {
			c.Node = fmt.Sprintf("n/%d", n+1)
			c.Plane.Store, c.Plane.Texts = &mortal{estate: e, died: func() {}}, store.Texts(e.Memory)
		})
		h.store = e.Memory
		hosts = append(hosts, h)
	}
	return hosts, e
}

// orphan is a stream of n/1 that has text, of which the store has "abcdef".
func orphan(t *testing.T, h *host) *plane.Stream {
	t.Helper()
	s := h.open("m1", "abc")
	for _, more := range []string{"def", "lost"} {
		if _, err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		push(t, s, more)
	}
	return s
}

var claim = plane.Claim{ID: "m1", Producer: "app"}

func TestAStreamWhoseOwnerDiedIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts, _ := bereft(t, 2)
		orphan(t, hosts[0])
		s, err := hosts[1].TakeOver(t.Context(), claim)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := hosts[1].TakeOver(t.Context(), claim); !errors.Is(err, plane.ErrOpenHere) {
			t.Errorf("once more: %v", err)
		}
		push(t, s, "NEW")
		for from, want := range map[actor.Access]string{
			{From: 10, Epoch: 1}: "NEW", {From: 4, Epoch: 1}: "efNEW", {From: 8, Epoch: 2}: "W", {From: 7}: "EW",
		} {
			from.Principal, from.StreamID = "u1", "m1"
			c, err := hosts[1].Subscribe(t.Context(), from)
			if err != nil {
				t.Fatal(err)
			}
			if text, _ := drain(c); text != want {
				t.Errorf("from %d@%d on there is %q, want %q", from.From, from.Epoch, text, want)
			}
			c.Close()
		}
		c, err := hosts[0].Subscribe(t.Context(), actor.Access{Principal: "u1", StreamID: "m1", From: 8, Epoch: 2})
		if err != nil {
			t.Fatal(err)
		}
		if text, last := drain(c); text != "" || last.Kind != plane.KindAbsent {
			t.Errorf("the owner before gave %q, %+v", text, last)
		}
		if err := hosts[0].Verify(t.Context()); err != nil {
			t.Error(err)
		}
		hosts[0].wantCounts(0, 0)
		time.Sleep(time.Minute)
		if _, err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if r, _ := hosts[0].store.Row("m1"); r.Body != "abcdefNEW" || r.Status != plane.StatusComplete {
			t.Errorf("the row is %+v", r)
		}
	})
}

// Its claim may yet come, long after it failed.
func TestATakeoverWithoutAnAnswerIsPutBack(t *testing.T) {
	for name, fault := range map[string]func(*estate){
		"done at once":    func(e *estate) { e.delay(100, 0) },
		"done much later": func(e *estate) { e.delay(100, 45*time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hosts, e := bereft(t, 3)
				orphan(t, hosts[0])
				fault(e)
				if _, err := hosts[1].TakeOver(t.Context(), claim); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("answered %v", err)
				}
				hosts[1].wantCounts(0, 0)
				e.recover()
				time.Sleep(3 * time.Minute)
				e.late.Wait()
				s := hosts[2].adopt("m1")
				if st := s.State(); s.Epoch() != 2 || st.Seq < 6 || st.Durable != st.Seq {
					t.Errorf("it is in epoch %d at %+v", s.Epoch(), s.State())
				}
				if _, err := s.Resume("app"); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// It would be taken over, and put back, as long as its producer tries.
func TestWhatCannotBeMadeLiveEndsAsFarAsItsTextGoes(t *testing.T) {
	for name, how := range map[string]func(*testing.T, []*host) error{
		"taken over": func(t *testing.T, h []*host) error {
			_, err := h[1].TakeOver(t.Context(), claim)
			return err
		},
		"adopted": func(t *testing.T, h []*host) error {
			h[0].store.Edit("m1", func(r *storetest.Row) { r.Token = "/1700.1/1" })
			_, err := h[1].Adopt(t.Context(), "m1")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hosts, _ := bereft(t, 2)
				orphan(t, hosts[0])
				hosts[0].store.Edit("m1", func(r *storetest.Row) { r.Chunks = r.Chunks[:1] })
				if err := how(t, hosts); !errors.Is(err, plane.ErrTextLost) {
					t.Errorf("answered %v", err)
				}
				time.Sleep(5 * time.Second)
				if r, _ := hosts[0].store.Row("m1"); r.Status != plane.StatusInterrupted || r.Body != "abc" {
					t.Errorf("the row is %+v", r)
				}
				hosts[1].wantCounts(0, 0)
			})
		})
	}
}

func TestADrainThatOvertakesATakeoverPutsItBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts, _ := bereft(t, 2)
		orphan(t, hosts[0])
		hosts[0].store.Latency(0, time.Second)
		answer := make(chan error, 1)
		go func() {
			_, err := hosts[1].TakeOver(context.Background(), claim)
			answer <- err
		}()
		time.Sleep(1500 * time.Millisecond)
		if err := hosts[1].Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-answer; !errors.Is(err, plane.ErrDraining) {
			t.Errorf("answered %v", err)
		}
		hosts[1].wantCounts(0, 0)
		if row, err := hosts[0].store.Read(t.Context(), "m1"); err != nil || !row.Disowned() || row.Epoch != 2 {
			t.Errorf("the row is %+v, %v", row, err)
		}
	})
}

// The reader for whom it is attached goes back to where the epoch began, and so does
// who comes later and is as far behind the times.
func TestAReaderElsewhereGoesBackToWhereALaterEpochBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts, _ := bereft(t, 2)
		orphan(t, hosts[0])
		s, err := hosts[1].TakeOver(t.Context(), claim)
		if err != nil {
			t.Fatal(err)
		}
		push(t, s, "NEW")
		p := newPair(t, nil)
		p.wire.set(func(w *wire) { w.to = hosts[1].System })
		for _, from := range []struct {
			at, epoch int64
			want      string
		}{{10, 1, "NEW"}, {7, 1, "NEW"}, {8, 2, "W"}, {6, 1, "NEW"}} {
			c, err := p.edge.Subscribe(t.Context(), actor.Access{Principal: "u1", StreamID: "m1", From: from.at, Epoch: from.epoch})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if text, last := drain(c); text != from.want || last.Kind != plane.KindChunk && last.Kind != plane.KindDurable {
				t.Errorf("from %d@%d on there is %q, %+v, want %q", from.at, from.epoch, text, last, from.want)
			}
		}
		p.wire.want(t, 1, 1)
	})
}
