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

// take gives a stream's row to another owner.
func (h *host) take(id string) {
	h.store.Edit(id, func(r *storetest.Row) { r.Token, r.Epoch = "other/1/2", 2 })
}

func TestADenialIsTheSameWhetherOrNotTheStreamExists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.open("m1", "abc")
		var answers []string
		for _, id := range []string{"m1", "ghost"} {
			c, err := h.Subscribe(t.Context(), actor.Access{Principal: "intruder", StreamID: id})
			if c != nil || !errors.Is(err, plane.ErrDenied) {
				t.Fatalf("subscribe to %s answered %v", id, err)
			}
			answers = append(answers, err.Error())
		}
		if answers[0] != answers[1] {
			t.Errorf("denials differ: %q and %q", answers[0], answers[1])
		}
		if _, last := h.read("ghost", 0); last.Kind != plane.KindAbsent {
			t.Errorf("who may read is told %+v of what is not there", last)
		}
	})
}

func TestAnAuthorizersErrorReachesTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("no answer from the directory")
		var asked actor.Access
		h := newHost(t, func(c *actor.Config) {
			c.Authorize = func(_ context.Context, a actor.Access) (bool, error) {
				asked = a
				return true, broken
			}
		})
		h.open("m1", "abc")
		want := actor.Access{Principal: "u1", StreamID: "m1", From: 2}
		if c, err := h.Subscribe(t.Context(), want); c != nil || !errors.Is(err, broken) {
			t.Errorf("subscribe answered %v", err)
		}
		if asked != want {
			t.Errorf("the authorizer was asked about %+v, want %+v", asked, want)
		}
	})
}

func TestAReaderWaitsForAnOpenThatIsBeingDecided(t *testing.T) {
	for name, tt := range map[string]struct {
		latency time.Duration
		fails   int
		want    plane.Kind
	}{
		"and joins when it is won":          {latency: time.Second, want: plane.KindOpen},
		"and is told absent when it is not": {latency: 100 * time.Millisecond, fails: 4, want: plane.KindAbsent},
		"but no longer than the join wait":  {latency: time.Minute, want: plane.KindAbsent},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, func(c *actor.Config) {
					c.Plane.Policy = plane.DefaultPolicy()
					c.Plane.Policy.StoreTimeout = time.Hour
				})
				h.store.Latency(tt.latency, 0)
				h.store.FailWrites(tt.fails)
				opened := make(chan error)
				go func() {
					_, err := h.Open(t.Context(), plane.Claim{ID: "m1"})
					opened <- err
				}()
				synctest.Wait()
				begin := time.Now()
				if _, last := h.read("m1", 0); last.Kind != tt.want {
					t.Errorf("read %+v, want %s", last, tt.want)
				}
				if waited := time.Since(begin); waited > actor.DefaultJoinWait {
					t.Errorf("waited %s", waited)
				}
				<-opened
			})
		})
	}
}

func TestAReaderThatGoesAwayWaitsForNoOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.store.Latency(time.Second, 0)
		opened := make(chan error)
		go func() {
			_, err := h.Open(t.Context(), plane.Claim{ID: "m1"})
			opened <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		c, err := h.Subscribe(ctx, actor.Access{Principal: "u1", StreamID: "m1"})
		if c != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("subscribe answered %v", err)
		}
		<-opened
	})
}

// W33.
func TestAReaderThatGoesAwayEndsItsAuthorization(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, func(c *actor.Config) {
			c.Authorize = func(ctx context.Context, _ actor.Access) (bool, error) {
				select {
				case <-ctx.Done():
					return false, ctx.Err()
				case <-time.After(time.Minute):
					return true, nil
				}
			}
		})
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		begin := time.Now()
		_, err := h.Subscribe(ctx, actor.Access{Principal: "u1", StreamID: "m1"})
		if waited := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || waited != time.Second {
			t.Errorf("subscribe answered %v after %s", err, waited)
		}
	})
}

func TestAResumeFromAnOlderEpochStartsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.store.Edit("m1", func(r *storetest.Row) { r.Epoch, r.Status = 4, plane.StatusInterrupted })
		h.open("m1", "abcdef")
		for epoch, want := range map[int64]int64{0: 3, 5: 3, 4: 0, 1: 0} {
			c, err := h.Subscribe(t.Context(), actor.Access{Principal: "u1", StreamID: "m1", From: 3, Epoch: epoch})
			if err != nil {
				t.Fatal(err)
			}
			if f, _, _ := c.Poll(); f.From != want || f.Epoch != 5 {
				t.Errorf("resume from epoch %d: read %+v, want from %d", epoch, f, want)
			}
			c.Close()
		}
	})
}
