package storetest

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"rillkeep.dev/rillkeep/plane"
)

func testAppend(t *testing.T, open func(testing.TB) backed) {
	each(t, open, map[string]func(*testing.T, backed){
		"adds a chunk row and leaves the body": func(t *testing.T, s backed) {
			row := appended(t, s, "s", appended(t, s, "s", opened(t, s, "s"), "abc"), "d😀")
			equal(t, row, plane.Row{Seq: 6, Status: plane.StatusStreaming, Token: node + "/1", Epoch: 1})
			stored, _ := s.Row("s")
			equal(t, stored.Body, "")
			equal(t, stored.Chunks, []plane.Chunk{{Seq: 3, Text: "abc"}, {Seq: 6, Text: "d😀"}})
		},
		"sees the cancel flag": func(t *testing.T, s backed) {
			row := opened(t, s, "s")
			cancelled(t, s, "s")
			if !appended(t, s, "s", row, "abc").Cancel {
				t.Error("the flag is not in the answer")
			}
		},
		"is refused where there is no row": func(t *testing.T, s backed) {
			_, err := s.Append(bounded(t), plane.Slice{ID: "s", Token: node + "/1", Seq: 1, Text: "a"})
			if !errors.Is(err, plane.ErrNotFound) {
				t.Errorf("got %v", err)
			}
		},
		"is refused where the text does not span the offsets": func(t *testing.T, s backed) {
			row := opened(t, s, "s")
			if _, err := s.Append(bounded(t), plane.Slice{ID: "s", Token: row.Token, Seq: 1, Text: "😀"}); err == nil {
				t.Error("no error")
			}
			equal(t, must(s.Read(bounded(t), "s"))(t), row)
		},
		"of two from one offset at once lands once": func(t *testing.T, s backed) {
			row := opened(t, s, "s")
			for range 20 {
				row = appendRace(t, s, row)
			}
		},
	})
	for name, slice := range map[string]plane.Slice{
		"a repeat":              {From: 3, Seq: 6, Text: "def"},
		"an overlap":            {From: 3, Seq: 9, Text: "defghi"},
		"a gap":                 {From: 7, Seq: 9, Text: "hi"},
		"another owner's":       {From: 6, Seq: 9, Text: "ghi", Token: "n2/boot1/1"},
		"an earlier epoch's":    {From: 6, Seq: 9, Text: "ghi", Token: node + "/0"},
		"one that has no owner": {From: 6, Seq: 9, Text: "ghi", Token: "-"},
	} {
		t.Run(name+" changes nothing", func(t *testing.T) {
			s := open(t)
			row := appended(t, s, "s", appended(t, s, "s", opened(t, s, "s"), "abc"), "def")
			before, _ := s.Row("s")
			slice.ID = "s"
			if slice.Token == "" {
				slice.Token = row.Token
			}
			equal(t, must(s.Append(bounded(t), slice))(t), row)
			after, _ := s.Row("s")
			equal(t, after, before)
		})
	}
	t.Run("to an ended row changes nothing", func(t *testing.T) {
		s := open(t)
		row := appended(t, s, "s", opened(t, s, "s"), "abc")
		end := sealed(t, s, plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, From: 3, Seq: 3, Text: "abc"})
		slice := plane.Slice{ID: "s", Token: row.Token, From: 3, Seq: 4, Text: "d"}
		equal(t, must(s.Append(bounded(t), slice))(t), end)
		stored, _ := s.Row("s")
		equal(t, stored.Chunks, nil)
	})
}

func appendRace(t *testing.T, s backed, row plane.Row) plane.Row {
	texts := []string{"AAAA", "bb"}
	answers, errs := make([]plane.Row, 2), make([]error, 2)
	ctx := bounded(t)
	var both sync.WaitGroup
	for n, text := range texts {
		both.Go(func() {
			answers[n], errs[n] = s.Append(ctx, plane.Slice{
				ID: "s", Token: row.Token, From: row.Seq, Seq: row.Seq + plane.Units(text), Text: text,
			})
		})
	}
	both.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	equal(t, answers[0], answers[1])
	stored, _ := s.Row("s")
	last := stored.Chunks[len(stored.Chunks)-1]
	if answers[0].Seq != last.Seq || row.Seq+plane.Units(last.Text) != last.Seq {
		t.Fatalf("after %d came %+v, the row says %d", row.Seq, last, answers[0].Seq)
	}
	return answers[0]
}

func testSeal(t *testing.T, open func(testing.TB) backed) {
	each(t, open, map[string]func(*testing.T, backed){
		"folds the chunks into the body": func(t *testing.T, s backed) {
			row := appended(t, s, "s", opened(t, s, "s"), "abc")
			end := sealed(t, s, plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, From: 3, Seq: 6, Text: "abcd😀"})
			equal(t, end, plane.Row{Seq: 6, Status: plane.StatusComplete, Token: row.Token, Epoch: 1})
			stored, _ := s.Row("s")
			equal(t, stored.Body, "abcd😀")
			equal(t, stored.Chunks, nil)
			if must(s.Get(bounded(t), "s"))(t).Ended.IsZero() {
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
		"by another changes nothing, with or without a base": func(t *testing.T, s backed) {
			row := appended(t, s, "s", opened(t, s, "s"), "abc")
			before, _ := s.Row("s")
			for _, seal := range []plane.Seal{{Seq: 1, Text: "x"}, {Base: 1, Seq: 2, Text: "x"}} {
				seal.ID, seal.Token, seal.Status = "s", "n2/boot1/1", plane.StatusComplete
				equal(t, sealed(t, s, seal), row)
			}
			after, _ := s.Row("s")
			equal(t, after, before)
		},
		"once more changes nothing": func(t *testing.T, s backed) {
			row := opened(t, s, "s")
			seal := plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, Seq: 3, Text: "abc"}
			end := sealed(t, s, seal)
			equal(t, sealed(t, s, seal), end)
			seal.Status, seal.Seq, seal.Text = plane.StatusInterrupted, 1, "x"
			equal(t, sealed(t, s, seal), end)
			equal(t, must(whole(bounded(t), s, "s", 0))(t), "abc")
		},
		"is refused where there is no row": func(t *testing.T, s backed) {
			_, err := s.Seal(bounded(t), plane.Seal{ID: "s", Token: node + "/1", Status: plane.StatusComplete})
			if !errors.Is(err, plane.ErrNotFound) {
				t.Errorf("got %v", err)
			}
		},
		"turns complete into cancelled where the flag is set": func(t *testing.T, s backed) {
			row := opened(t, s, "s")
			cancelled(t, s, "s")
			end := sealed(t, s, plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, Seq: 1, Text: "a"})
			equal(t, end.Status, plane.StatusCancelled)
		},
		"leaves error and interrupted as they are where the flag is set": func(t *testing.T, s backed) {
			for _, status := range []plane.Status{plane.StatusError, plane.StatusInterrupted} {
				id := string(status)
				row := opened(t, s, id)
				cancelled(t, s, id)
				equal(t, sealed(t, s, plane.Seal{ID: id, Token: row.Token, Status: status}).Status, status)
			}
		},
		"keeps the message of an error": func(t *testing.T, s backed) {
			for message, want := range map[string]string{
				"boom": "boom", "": "", "NUL \x00, \xff": "NUL \uFFFD, \uFFFD", strings.Repeat("long ", 5000): strings.Repeat("long ", 5000),
			} {
				id := "s-" + want[:min(len(want), 4)]
				row := opened(t, s, id)
				end := sealed(t, s, plane.Seal{ID: id, Token: row.Token, Status: plane.StatusError, Error: message, HasError: true})
				equal(t, end.Error, want)
				if !must(s.Get(bounded(t), id))(t).HasError || !must(s.Text(bounded(t), id, 0, 0))(t).HasError {
					t.Errorf("%q is no error", message)
				}
			}
		},
		"without an error has none": func(t *testing.T, s backed) {
			row := opened(t, s, "s")
			sealed(t, s, plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete})
			if must(s.Get(bounded(t), "s"))(t).HasError {
				t.Error("there is one")
			}
		},
	})
}

func testCancel(t *testing.T, open func(testing.TB) backed) {
	each(t, open, map[string]func(*testing.T, backed){
		"sets the flag once and for all": func(t *testing.T, s backed) {
			row := appended(t, s, "s", opened(t, s, "s"), "abc")
			row.Cancel = true
			for range 2 {
				equal(t, cancelled(t, s, "s"), row)
			}
			equal(t, must(s.Read(bounded(t), "s"))(t), row)
		},
		"of a row that has not begun counts when it does": func(t *testing.T, s backed) {
			s.Edit("s", func(*Row) {})
			if !cancelled(t, s, "s").Cancel || !opened(t, s, "s").Cancel {
				t.Error("the flag is gone")
			}
		},
		"leaves an ended row": func(t *testing.T, s backed) {
			row := opened(t, s, "s")
			end := sealed(t, s, plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete})
			equal(t, cancelled(t, s, "s"), end)
		},
		"is refused where there is no row": func(t *testing.T, s backed) {
			if _, err := s.Cancel(bounded(t), "s"); !errors.Is(err, plane.ErrNotFound) {
				t.Errorf("got %v", err)
			}
		},
	})
}
