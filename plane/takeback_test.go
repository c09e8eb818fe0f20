package plane_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

// takenBack is the answer, after a fault, of a stream that was handed over, and how
// many rows were told of.
func (h *handed) takenBack(cfg plane.Config, within time.Duration) (plane.Row, int, error) {
	repaired := 0
	cfg.Store, cfg.Hooks.Repaired = h.store, func(string, plane.Row) { repaired++ }
	ctx, cancel := context.WithTimeout(h.t.Context(), within)
	defer cancel()
	row, err := plane.TakeBack(ctx, cfg, "m1", h.moved[0].Row)
	return row, repaired, err
}

func newGivenUp(t *testing.T) *handed {
	h := newHanded(t, nil)
	h.push("abc😀")
	if _, err := h.HandOver(h.ctx); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestWhatNobodyAdoptsIsTakenBackInterrupted(t *testing.T) {
	for name, fault := range map[string]func(*storetest.Memory){
		"at once":                       func(*storetest.Memory) {},
		"when the store is back":        func(m *storetest.Memory) { m.FailWrites(9) },
		"though the answer is lost":     func(m *storetest.Memory) { m.LoseAcks(1) },
		"though nothing can be read":    func(m *storetest.Memory) { m.FailReads(3); m.FailWrites(1) },
		"and the answer, and its look":  func(m *storetest.Memory) { m.LoseAcks(1); m.FailReads(1) },
		"by who asks again what it did": func(m *storetest.Memory) { m.LoseAcks(3); m.FailReads(2) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newGivenUp(t)
				fault(h.store)
				row, repaired, err := h.takenBack(plane.Config{}, time.Minute)
				if err != nil || row.Status != plane.StatusInterrupted || row.Seq != 5 || repaired != 1 {
					t.Errorf("answered %+v, %v, and told %d times", row, err, repaired)
				}
				h.wantSealed(plane.StatusInterrupted)
				// What asked for it and is late finds that out.
				if _, err := h.store.Adopt(h.ctx, "m1", h.moved[0].Row.Token, "n/2"); !errors.Is(err, plane.ErrClosed) {
					t.Errorf("a late adoption was answered %v", err)
				}
			})
		})
	}
}

// Whoever was first has it (O).
func TestWhatAnotherHasIsNotTakenBack(t *testing.T) {
	for name, c := range map[string]struct {
		before func(h *handed, mark string)
		token  string
	}{
		"adopted": {func(h *handed, mark string) { h.adoptBy("n/2", mark) }, "n/2/1"},
		"adopted, and given up anew": {func(h *handed, mark string) {
			if _, err := h.store.Disown(h.ctx, "m1", h.adoptBy("n/2", mark), 1); err != nil {
				h.t.Fatal(err)
			}
		}, ""},
		"adopted, and ended": {func(h *handed, mark string) {
			seal := plane.Seal{ID: "m1", Token: h.adoptBy("n/2", mark), Status: plane.StatusComplete, From: 5, Base: 5, Seq: 5}
			if _, err := h.store.Seal(h.ctx, seal); err != nil {
				h.t.Fatal(err)
			}
		}, "n/2/1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newGivenUp(t)
				time.Sleep(time.Millisecond) // for another mark
				c.before(h, h.moved[0].Row.Token)
				before, _ := h.store.Row("m1")
				row, repaired, err := h.takenBack(plane.Config{}, time.Minute)
				after, _ := h.store.Row("m1")
				if err != nil || row.Token == h.moved[0].Row.Token || repaired != 0 || c.token != "" && row.Token != c.token {
					t.Errorf("answered %+v, %v, and told %d times", row, err, repaired)
				}
				if after.Status != before.Status || after.Token != before.Token {
					t.Errorf("the row is %+v, and was %+v", after, before)
				}
			})
		})
	}
}

// adoptBy has a node adopt the stream, and answers its token.
func (h *handed) adoptBy(node, mark string) string {
	h.t.Helper()
	row, err := h.store.Adopt(h.ctx, "m1", mark, node)
	if err != nil {
		h.t.Fatal(err)
	}
	return row.Token
}

func TestTakingBackEndsWithItsContext(t *testing.T) {
	for name, fault := range map[string]func(*storetest.Memory){
		"a store that fails": func(m *storetest.Memory) { m.FailWrites(1000) },
		"a store that hangs": func(m *storetest.Memory) { m.Hang(true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newGivenUp(t)
				fault(h.store)
				began := time.Now()
				if _, repaired, err := h.takenBack(plane.Config{}, 3*time.Second); err == nil || repaired != 0 || time.Since(began) != 3*time.Second {
					t.Errorf("answered %v after %v, and told %d times", err, time.Since(began), repaired)
				}
				h.store.Clear()
				if row, err := h.store.Read(h.ctx, "m1"); err != nil || !row.Disowned() {
					t.Errorf("the row is %+v, %v", row, err)
				}
			})
		})
	}
}

func TestARowThatIsGoneIsNotTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newGivenUp(t)
		h.store.Delete("m1")
		if _, _, err := h.takenBack(plane.Config{}, time.Minute); !errors.Is(err, plane.ErrNotFound) {
			t.Errorf("answered %v", err)
		}
	})
}
