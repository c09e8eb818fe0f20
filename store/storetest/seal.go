package storetest

import (
	"errors"
	"slices"
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
		"takes megabytes that lie below its base from the store": sealMegabytes,
		"ends the stream where text below its base was deleted": func(t *testing.T, s backed) {
			row := appended(t, s, "s", appended(t, s, "s", appended(t, s, "s", opened(t, s, "s"), "ab"), "cd"), "ef")
			s.Edit("s", func(r *Row) { r.Chunks = slices.Delete(r.Chunks, 1, 2) })
			end := sealed(t, s, plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, From: 6, Base: 5, Seq: 7, Text: "fg"})
			stored, _ := s.Row("s")
			isCut(t, s, stored)
			equal(t, end, plane.Row{Seq: 2, Status: plane.StatusInterrupted, Token: row.Token, Epoch: row.Epoch, Error: end.Error})
			equal(t, must(whole(bounded(t), s, "s", 0))(t), "ab")
		},
		"ends the stream where the row does, if that is below its base": func(t *testing.T, s backed) {
			row := appended(t, s, "s", opened(t, s, "s"), "abc")
			seal := plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, From: 6, Base: 5, Seq: 6, Text: "f"}
			if s.lacks.Tokens { // it is told by its length
				seal.From = 3
			}
			end := sealed(t, s, seal)
			stored, _ := s.Row("s")
			equal(t, stored.Body, "abc")
			equal(t, end.Seq, 3)
			equal(t, end.Status, plane.StatusInterrupted)
			equal(t, end, must(s.Read(bounded(t), "s"))(t))
			if !s.lacks.Error && !strings.Contains(end.Error, "database has lost") {
				t.Errorf("its error is %q", end.Error)
			}
		},
		"replaces the meta": sealMeta,
		"never makes the text shorter": func(t *testing.T, s backed) {
			row := appended(t, s, "s", opened(t, s, "s"), "abc")
			for _, seal := range []plane.Seal{{Seq: 2, Text: "ab"}, {From: 2, Base: 2, Seq: 2}, {}} {
				seal.ID, seal.Token, seal.Status = "s", row.Token, plane.StatusInterrupted
				equal(t, sealed(t, s, seal), row)
			}
		},
	})
}

func sealMeta(t *testing.T, s backed) {
	const claimed, ended = `{"a": "claimed"}`, `{"a":  "ended \u0000", "b": 1, "b": 2}`
	texts := map[string]plane.Seal{
		"at once": {Seq: 3, Text: "abc"}, "of chunks": {From: 2, Seq: 3, Text: "abc"}, "above a base": {From: 2, Base: 1, Seq: 3, Text: "bc"},
		"over a hole": {From: 2, Base: 1, Seq: 3, Text: "bc"},
	}
	for how, seal := range texts {
		for meta, want := range map[string]string{ended: ended, "": claimed} {
			id := how + meta
			row := must(s.Open(bounded(t), plane.Claim{ID: id, Node: node, Meta: []byte(claimed)}))(t)
			if seal.From > 0 {
				row = appended(t, s, id, appended(t, s, id, row, "a"), "b")
			}
			if how == "over a hole" {
				s.Edit(id, func(r *Row) { r.Chunks = r.Chunks[1:] })
			}
			seal.ID, seal.Token, seal.Status, seal.Meta = id, row.Token, plane.StatusComplete, nil
			if meta != "" {
				seal.Meta = []byte(meta)
			}
			foreign := seal
			foreign.Token, foreign.Meta = "n9/boot1/1", []byte("[]")
			if !s.lacks.Tokens {
				sealed(t, s, foreign)
			}
			if end := sealed(t, s, seal); !end.Status.Ended() {
				t.Errorf("%s: %+v", id, end)
			}
			seal.Meta = []byte("[]")
			sealed(t, s, seal) // a repeat changes nothing
			got := must(s.Get(bounded(t), id))(t).Meta
			equal(t, string(got), string(s.stream(store.Stream{Meta: []byte(want)}).Meta))
		}
	}
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
		"by another, that would go on where the row is": func(t *testing.T, s backed) {
			if s.lacks.Tokens {
				return // nobody tells it from the owner's
			}
			row := appended(t, s, "s", appended(t, s, "s", opened(t, s, "s"), "ab"), "c")
			for _, spoil := range []func(*Row){func(*Row) {}, func(r *Row) { r.Chunks = r.Chunks[1:] }} {
				s.Edit("s", spoil)
				before, _ := s.Row("s")
				for _, seal := range []plane.Seal{
					{From: 3, Seq: 3, Text: "abc"}, {From: 3, Seq: 5, Text: "abcde"}, {From: 3, Base: 2, Seq: 5, Text: "cde"}, {Seq: 5, Text: "abcde"},
				} {
					seal.ID, seal.Token, seal.Status = "s", "n2/boot1/1", plane.StatusComplete
					equal(t, sealed(t, s, seal), row)
				}
				after, _ := s.Row("s")
				equal(t, after, before)
			}
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

// isCut checks a row, 6 units long, whose text has a hole from 2 on, when its
// stream has ended: there, with what lies beyond as it was.
func isCut(t *testing.T, s backed, r Row) {
	t.Helper()
	equal(t, r.Status, plane.StatusInterrupted)
	equal(t, r.Body, "ab")
	equal(t, r.Seq, 2)
	equal(t, r.Chunks, []plane.Chunk{{Seq: 6, Text: "ef"}})
	if !s.lacks.Error && !strings.Contains(r.Error, "deleted by others") {
		t.Errorf("its error is %q", r.Error)
	}
}

func sealMegabytes(t *testing.T, s backed) {
	row := opened(t, s, "s")
	piece := strings.Repeat("naïve 😀 漢字, ", 20_000)
	for range 8 {
		row = appended(t, s, "s", row, piece)
	}
	below := plane.Units(piece) * 7
	end := sealed(t, s, plane.Seal{
		ID: "s", Token: row.Token, Status: plane.StatusComplete, From: row.Seq, Base: below, Seq: row.Seq + 3, Text: piece + "end",
	})
	equal(t, end.Seq, row.Seq+3)
	equal(t, end.Status, plane.StatusComplete)
	if got := must(whole(bounded(t), s, "s", 100_000))(t); got != strings.Repeat(piece, 8)+"end" {
		t.Errorf("it holds %d bytes", len(got))
	}
	page := must(s.Text(bounded(t), "s", below+5, 20))(t)
	equal(t, page.Text, plane.Skip(piece, 5)[:len(page.Text)])
}
