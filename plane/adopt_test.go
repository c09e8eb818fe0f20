package plane_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/storetest"
)

// leave hands the scene's stream over, with all that was pushed.
func (h *handed) leave() {
	h.t.Helper()
	if _, err := h.HandOver(h.ctx); err != nil {
		h.t.Fatalf("hand over: %v", err)
	}
}

func TestAnAdoptedStreamGoesOnWhereItWas(t *testing.T) {
	for _, text := range []string{"", "a", "abc😀", strings.Repeat("äöü 漢字 😀 of many pages. ", 60_000)} {
		t.Run(fmt.Sprint(plane.Units(text)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHanded(t, func(c *plane.Config) { c.Policy.MaxOutstanding = 4 << 20 })
				for rest := text; rest != ""; {
					n := plane.Cut(rest, 100_000)
					h.push(rest[:n])
					rest = rest[n:]
				}
				before := h.Epoch()
				h.leave()
				next := h.adopt("n/2", nil)
				end := plane.Units(text)
				if st := next.State(); st.Seq != end || st.Received != end || st.Durable != end || st.Status != plane.StatusStreaming || st.Over {
					t.Errorf("it is %+v, want %d", st, end)
				}
				if next.Epoch() != before || next.ID() != "m1" {
					t.Errorf("%s in epoch %d", next.ID(), next.Epoch())
				}
				old, tip := next.Join(0), next.Join(end)
				defer old.Close()
				defer tip.Close()
				if got := take(tip); got.from != end || got.text != "" || got.last.Kind != plane.KindOpen {
					t.Errorf("a reader at the end got %+v", got)
				}
				if err := next.PushAt(t.Context(), end, "and on"); err != nil {
					t.Error(err)
				}
				if err := next.PushAt(t.Context(), end, "and on"); err != nil {
					t.Errorf("a repeat: %v", err)
				}
				h.pushed += "and on"
				if got := take(old); got.text != h.pushed {
					t.Errorf("a reader got %d bytes, want %d", len(got.text), len(h.pushed))
				}
				if got := take(tip); got.text != "and on" {
					t.Errorf("a reader at the end got %q", got.text)
				}
				if _, err := next.Flush(t.Context()); err != nil {
					t.Error(err)
				}
				// The one before has nothing to say any more.
				if err := h.Push(t.Context(), "late"); !errors.Is(err, plane.ErrMoved) {
					t.Error(err)
				}
				h.after(time.Hour)
				if _, err := next.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if r, _ := h.store.Row("m1"); r.Body != h.pushed || r.Token != "n/2/1" || r.Status != plane.StatusComplete {
					t.Errorf("the row has %d bytes under %s: %s", len(r.Body), r.Token, r.Status)
				}
			})
		})
	}
}

func TestAnAdoptedLongTextIsReadInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHanded(t, func(c *plane.Config) { c.Policy.MaxOutstanding = 32 << 20 })
		h.push(strings.Repeat("0123456789", 1_200_000))
		h.leave()
		asked := len(h.store.Calls())
		h.adopt("n/2", nil)
		pages := 0
		for _, c := range h.store.Calls()[asked:] {
			if c.Kind == "text" {
				pages++
			}
		}
		if pages < 12 || pages > 30 {
			t.Errorf("12 MB were read in %d pages", pages)
		}
	})
}

// Its budget is 1 MB, and the text more.
func TestWhereMemoryIsShortAnAdoptedTextBeginsLater(t *testing.T) {
	for name, used := range map[string]int{"from the start": 0, "while it is read": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHanded(t, func(c *plane.Config) { c.Policy.MaxOutstanding = 8 << 20 })
				text := strings.Repeat("a line of text\n", 250_000)
				if used == 1 { // more bytes than units
					text = strings.Repeat("漢字😀", 200_000)
				}
				h.push(text)
				h.leave()
				end := plane.Units(text)
				budget := plane.NewBudget(1 << 20)
				var most int64
				next := h.adopt("n/2", func(c *plane.Config) {
					c.Budget = budget
					inner := c.Texts
					c.Texts = pages(func(ctx context.Context, id string, from, limit int64) (string, int64, error) {
						most = max(most, budget.Used())
						return inner.Page(ctx, id, from, limit)
					})
				})
				if most = max(most, budget.Used()); most > 4<<20 {
					t.Errorf("%d bytes were used", most)
				}
				if budget.Exceeded() {
					t.Errorf("%d bytes of %d are used", budget.Used(), budget.Limit())
				}
				if got := take(next.Join(0)); got.last.Kind != plane.KindStale || got.last.FloorSeq == 0 || got.last.DurableSeq != end {
					t.Errorf("who reads from the start is told %+v", got.last)
				}
				c := next.Join(end - 100)
				defer c.Close()
				if got := take(c); !strings.HasSuffix(text, got.text) || len(got.text) < 100 {
					t.Errorf("who is behind gets %q", got.text)
				}
				if err := next.PushAt(t.Context(), end, "the end"); err != nil {
					t.Error(err)
				}
				h.pushed += "the end"
				if _, err := next.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if r, _ := h.store.Row("m1"); r.Body != h.pushed {
					t.Error("the row has another text")
				}
			})
		})
	}
}

// pages is a plane.Texts.
type pages func(ctx context.Context, id string, from, limit int64) (string, int64, error)

func (p pages) Page(ctx context.Context, id string, from, limit int64) (string, int64, error) {
	return p(ctx, id, from, limit)
}

func TestAnAdoptionIsRefusedWhereThereIsNothingToAdopt(t *testing.T) {
	for name, c := range map[string]struct {
		row  func(*storetest.Memory)
		want error
	}{
		"no row":    {func(*storetest.Memory) {}, plane.ErrNotFound},
		"a pending": {func(m *storetest.Memory) { m.Edit("m1", func(*storetest.Row) {}) }, plane.ErrNotFound},
		"one that is held": {func(m *storetest.Memory) {
			m.Edit("m1", func(r *storetest.Row) { r.Status, r.Token, r.Epoch = plane.StatusStreaming, "n/1/1", 1 })
		}, plane.ErrHeld},
		"one that has ended": {func(m *storetest.Memory) {
			m.Edit("m1", func(r *storetest.Row) { r.Status, r.Token, r.Epoch = plane.StatusComplete, "n/1/1", 1 })
		}, plane.ErrClosed},
		"one that another adopts first": {func(m *storetest.Memory) {
			m.Edit("m1", func(r *storetest.Row) { r.Status, r.Token, r.Epoch = plane.StatusStreaming, "/5/1", 1 })
			m.Rival("m1", func(r *storetest.Row) { r.Token = "n/3/1" })
		}, plane.ErrHeld},
		"one that another adopts and disowns first": {func(m *storetest.Memory) {
			m.Edit("m1", func(r *storetest.Row) { r.Status, r.Token, r.Epoch = plane.StatusStreaming, "/5/1", 1 })
			m.Rival("m1", func(r *storetest.Row) { r.Token = "/6/1" })
		}, plane.ErrLostRace},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := storetest.NewMemory()
				c.row(m)
				_, err := plane.Adopt(t.Context(), plane.Config{Store: m, Texts: store.Texts(m)}, "m1", "n/2")
				if !errors.Is(err, c.want) || !plane.Refused(err) {
					t.Errorf("answered %v, want %v", err, c.want)
				}
				if r, _ := m.Row("m1"); strings.HasPrefix(r.Token, "n/2/") {
					t.Error("it has the row")
				}
			})
		})
	}
}

func TestALostAnswerToAnAdoptionIsAbsorbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHanded(t, nil)
		h.push("abc")
		h.leave()
		h.store.LoseAcks(2)
		h.store.FailReads(1)
		next := h.adopt("n/2", nil)
		if st := next.State(); st.Seq != 3 {
			t.Errorf("it is %+v", st)
		}
	})
}

func TestAStopThatCameBetweenTwoOwnersIsHeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHanded(t, nil)
		h.push("abc")
		h.leave()
		if _, err := h.store.Cancel(t.Context(), "m1"); err != nil {
			t.Fatal(err)
		}
		h.store.Latency(0, 5*time.Second) // reading takes longer than a producer has to end
		if next := h.adopt("n/2", nil); !next.IsCancelled() {
			t.Error("it was not told")
		}
		h.after(3 * time.Second)
		h.wantSealed(plane.StatusCancelled)
	})
}

func TestWhatCannotBeAdoptedWholeIsPutBack(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*handed, *plane.Config)
		want  error
	}{
		"a text with a hole": {func(h *handed, _ *plane.Config) {
			h.store.Edit("m1", func(r *storetest.Row) { r.Chunks = r.Chunks[1:] })
		}, nil},
		"a text that can't be read": {func(h *handed, c *plane.Config) {
			c.Texts = pages(func(context.Context, string, int64, int64) (string, int64, error) { return "", 0, storetest.ErrRead })
		}, storetest.ErrRead},
		"a text that is too short": {func(h *handed, c *plane.Config) {
			c.Texts = pages(func(_ context.Context, _ string, from, _ int64) (string, int64, error) {
				return "abc"[from:], from, nil
			})
		}, nil},
		"an answer that never comes": {func(h *handed, _ *plane.Config) { h.store.LoseAcks(4); h.store.Rival("m1", func(*storetest.Row) {}) }, storetest.ErrAckLost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHanded(t, nil)
				h.push("abc")
				h.after(time.Second)
				h.push("def")
				h.leave()
				cfg := plane.Config{Store: h.store, Texts: store.Texts(h.store), Budget: plane.NewBudget(1 << 20)}
				c.spoil(h, &cfg)
				_, err := plane.Adopt(t.Context(), cfg, "m1", "n/2")
				if hole, ok := errors.AsType[*plane.HoleError](err); !errors.Is(err, c.want) && !(ok && c.want == nil) {
					t.Errorf("answered %v, %v", err, hole)
				}
				if cfg.Budget.Used() != 0 {
					t.Errorf("%d bytes are used", cfg.Budget.Used())
				}
				h.store.Clear()
				if settled, err := plane.PutBack(t.Context(), cfg, "m1", "n/2"); !settled || err != nil {
					t.Errorf("putting back: %v, %v", settled, err)
				}
				row, err := h.store.Read(t.Context(), "m1")
				if err != nil || !row.Disowned() {
					t.Errorf("%+v, %v", row, err)
				}
				// Now it is as if nobody had adopted it: that may still come.
				if settled, err := plane.PutBack(t.Context(), cfg, "m1", "n/2"); settled || err != nil {
					t.Errorf("putting back: %v, %v", settled, err)
				}
			})
		})
	}
}

func TestWhatIsAnothersIsNotPutBack(t *testing.T) {
	for name, row := range map[string]storetest.Row{
		"adopted by another": {Status: plane.StatusStreaming, Token: "n/3/1"},
		"of a similar name":  {Status: plane.StatusStreaming, Token: "n/22/1"},
		"ended":              {Status: plane.StatusComplete, Token: "n/2/1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := storetest.NewMemory()
				m.Edit("m1", func(r *storetest.Row) { *r = row })
				if settled, err := plane.PutBack(t.Context(), plane.Config{Store: m}, "m1", "n/2"); !settled || err != nil {
					t.Errorf("%v, %v", settled, err)
				}
				if after, _ := m.Row("m1"); after.Token != row.Token || after.Status != row.Status {
					t.Errorf("the row is %+v", after)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		m := storetest.NewMemory()
		if settled, err := plane.PutBack(t.Context(), plane.Config{Store: m}, "m1", "n/2"); !settled || err != nil {
			t.Errorf("of no row: %v, %v", settled, err)
		}
		m.FailReads(1)
		if settled, err := plane.PutBack(t.Context(), plane.Config{Store: m}, "m1", "n/2"); settled || err == nil {
			t.Errorf("of a row that can't be read: %v, %v", settled, err)
		}
	})
}
