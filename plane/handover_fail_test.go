package plane_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/storetest"
)

func TestAStreamWhoseTextCannotBeMadeDurableGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(*handed)
		want  error
	}{
		"a store that fails": {func(h *handed) { h.store.FailWrites(1000) }, plane.ErrShort},
		"a store that hangs": {func(h *handed) { h.store.Hang(true) }, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHanded(t, nil)
				h.push("abc")
				c.fault(h)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				answer := make(chan error, 1)
				go func() {
					_, err := h.HandOver(ctx)
					answer <- err
				}()
				synctest.Wait()
				h.wantRefused()
				if err := <-answer; !errors.Is(err, c.want) {
					t.Errorf("handing over answered %v, want %v", err, c.want)
				}
				h.wantGoingOn()
			})
		})
	}
}

func TestAStreamThatTheStoreCertainlyKeptGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		says error
		want error
	}{
		"a locked row":                {store.ErrBusy, store.ErrBusy},
		"a right that is missing":     {plane.ErrBroken, plane.ErrBroken},
		"a table without owner token": {errors.ErrUnsupported, errors.ErrUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHanded(t, nil)
				h.push("abc")
				var asked atomic.Int64
				h.disown = func(context.Context, string, string) (plane.Row, error) {
					asked.Add(1)
					return plane.Row{}, c.says
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if _, err := h.HandOver(ctx); !errors.Is(err, c.want) && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("handing over answered %v, want %v", err, c.want)
				}
				synctest.Wait()
				if n := asked.Load(); (n > 1) != (c.says == store.ErrBusy) {
					t.Errorf("the store was asked %d times", n)
				}
				h.wantGoingOn()
			})
		})
	}
}

// However long it was locked before, it is asked for again soon enough.
func TestARowThatIsFreeAgainInTimeIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHanded(t, nil)
		h.push("abc")
		free := time.Now().Add(13 * time.Second)
		h.disown = func(ctx context.Context, id, token string) (plane.Row, error) {
			if time.Now().Before(free) {
				return plane.Row{}, store.ErrBusy
			}
			time.Sleep(10 * time.Millisecond) // on its way
			return h.store.Disown(ctx, id, token)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		if _, err := h.HandOver(ctx); err != nil {
			t.Error(err)
		}
	})
}

// Held half a pair, it still has that.
func TestAStreamThatGoesOnKeepsTheHalfOfAPair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHanded(t, nil)
		h.push("ab")
		if err := h.Push(t.Context(), highHalf); err != nil {
			t.Fatal(err)
		}
		h.disown = func(context.Context, string, string) (plane.Row, error) { return plane.Row{}, plane.ErrBroken }
		if _, err := h.HandOver(t.Context()); !errors.Is(err, plane.ErrBroken) {
			t.Errorf("handing over answered %v", err)
		}
		if err := h.PushAt(t.Context(), 2, highHalf+lowHalf); err != nil {
			t.Error(err)
		}
		h.pushed += "😀"
		h.wantGoingOn()
	})
}

func TestAStreamWhoseRowIsAnothersIsNotHandedOver(t *testing.T) {
	for name, rob := range map[string]func(*handed){
		"a new epoch": func(h *handed) { h.store.Edit("m1", func(r *storetest.Row) { r.Token, r.Epoch = "n/2/2", 2 }) },
		"swept":       func(h *handed) { h.store.Edit("m1", func(r *storetest.Row) { r.Status = plane.StatusInterrupted }) },
		"moved on":    func(h *handed) { h.store.Edit("m1", func(r *storetest.Row) { r.Seq = 7 }) },
		"gone":        func(h *handed) { h.store.Delete("m1") },
		"before its last text": func(h *handed) {
			h.push("def")
			h.store.Edit("m1", func(r *storetest.Row) { r.Token, r.Epoch = "n/2/2", 2 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHanded(t, nil)
				h.push("abc")
				if _, err := h.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				rob(h)
				if _, err := h.HandOver(t.Context()); !errors.Is(err, plane.ErrFenced) {
					t.Errorf("handing over answered %v", err)
				}
				synctest.Wait()
				if len(h.moved) != 0 || len(h.ended) != 1 || !errors.Is(h.Refusal(), plane.ErrFenced) {
					t.Errorf("it moved %d times and ended %d times: %v", len(h.moved), len(h.ended), h.Refusal())
				}
			})
		})
	}
}
