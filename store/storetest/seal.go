package storetest

import (
	"errors"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

// testSeal is of the text that a seal leaves.
func testSeal(t *testing.T, open func(testing.TB) backed) {
	each(t, open, map[string]func(*testing.T, backed){
		"folds the chunks into the body": func(t *testing.T, s backed) {
			row := appended(t, s, "s", opened(t, s, "s"), "abc")
			end := sealed(t, s, plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, From: 3, Seq: 6, Text: "abcd😀"})
			equal(t, end, plane.Row{Seq: 6, Status: plane.StatusComplete, Token: row.Token, Epoch: row.Epoch})
			stored, _ := s.Row("s")
			equal(t, stored.Body, "abcd😀")
			equal(t, stored.Chunks, nil)
			if must(s.Get(bounded(t), "s"))(t).Ended.IsZero() != s.lacks.Details {
				t.Error("no time of the end")
			}
		},
		"repairs what checkpoints missed": func(t *testing.T, s backed) {
			row := opened(t, s, "s")
			sealed(t, s, plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusInterrupted, Seq: 3, Text: "abc"})
			equal(t, must(whole(bounded(t), s, "s", 0))(t), "abc")
		},
		"takes what lies below its base from the store": func(t *testing.T, s backed) {
			row := appended(t, s, "s", appended(t, s, "s", opened(t, s, "s"), "ab😀"), "cdef")
			end := sealed(t, s, plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, From: 8, Base: 5, Seq: 9, Text: "defg"})
			equal(t, end.Seq, 9)
			equal(t, must(whole(bounded(t), s, "s", 0))(t), "ab😀cdefg")
		},
		"fails where the store lacks what lies below its base": func(t *testing.T, s backed) {
			row := appended(t, s, "s", opened(t, s, "s"), "abc")
			_, err := s.Seal(bounded(t), plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, Base: 5, Seq: 6, Text: "f"})
			if err == nil {
				t.Error("no error")
			}
			equal(t, must(s.Read(bounded(t), "s"))(t), row)
		},
	})
}

// testIdleSeal is of seals that change nothing.
func testIdleSeal(t *testing.T, open func(testing.TB) backed) {
	each(t, open, map[string]func(*testing.T, backed){
		"by another, with or without a base": func(t *testing.T, s backed) {
			row := appended(t, s, "s", opened(t, s, "s"), "abc")
			before, _ := s.Row("s")
			// Where there are no tokens it is told by its length, which the row has not.
			for _, seal := range []plane.Seal{{Seq: 1, Text: "x"}, {Base: 1, Seq: 2, Text: "x"}, {From: 4, Seq: 5, Text: "abcde"}} {
				seal.ID, seal.Token, seal.Status = "s", "n2/boot1/1", plane.StatusComplete
				equal(t, sealed(t, s, seal), row)
			}
			after, _ := s.Row("s")
			equal(t, after, before)
		},
		"once more": func(t *testing.T, s backed) {
			row := opened(t, s, "s")
			seal := plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, Seq: 3, Text: "abc"}
			end := sealed(t, s, seal)
			equal(t, sealed(t, s, seal), end)
			seal.Status, seal.Seq, seal.Text = plane.StatusInterrupted, 1, "x"
			equal(t, sealed(t, s, seal), end)
			equal(t, must(whole(bounded(t), s, "s", 0))(t), "abc")
		},
		"where there is no row": func(t *testing.T, s backed) {
			_, err := s.Seal(bounded(t), plane.Seal{ID: "s", Token: node + "/1", Status: plane.StatusComplete})
			if !errors.Is(err, plane.ErrNotFound) {
				t.Errorf("got %v", err)
			}
		},
	})
}

// testEnding is of the status and the error that a seal leaves.
func testEnding(t *testing.T, open func(testing.TB) backed) {
	long := strings.Repeat("long ", 5000)
	for name, c := range map[string]struct {
		asked  plane.Status
		cancel bool
		want   plane.Status
	}{
		"complete is cancelled where the flag is set": {plane.StatusComplete, true, plane.StatusCancelled},
		"error stays where the flag is set":           {plane.StatusError, true, plane.StatusError},
		"interrupted stays where the flag is set":     {plane.StatusInterrupted, true, plane.StatusInterrupted},
		"complete without the flag":                   {plane.StatusComplete, false, plane.StatusComplete},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			row := opened(t, s, "s")
			if c.cancel {
				cancelled(t, s, "s")
			}
			end := sealed(t, s, plane.Seal{ID: "s", Token: row.Token, Status: c.asked, Seq: 1, Text: "a"})
			if s.lacks.Cancel {
				c.want = c.asked
			}
			equal(t, end.Status, c.want)
		})
	}
	for name, c := range map[string]struct {
		message  string
		hasError bool
		want     string
	}{
		"a message is kept":        {"boom", true, "boom"},
		"an empty message is one":  {"", true, ""},
		"a message is made sound":  {"NUL \x00, \xff", true, "NUL \uFFFD, \uFFFD"},
		"a long message is kept":   {long, true, long},
		"without an error is none": {"", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			row := opened(t, s, "s")
			end := sealed(t, s, plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusError, Error: c.message, HasError: c.hasError})
			want := s.stream(store.Stream{Row: plane.Row{Error: c.want}, HasError: c.hasError})
			equal(t, end.Error, want.Error)
			equal(t, must(s.Get(bounded(t), "s"))(t).HasError, want.HasError)
			equal(t, must(s.Text(bounded(t), "s", 0, 0))(t).HasError, want.HasError)
		})
	}
}
