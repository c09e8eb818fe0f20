package storetest

import (
	"errors"
	"sync"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

func testAppend(t *testing.T, open func(testing.TB) backed) {
	each(t, open, map[string]func(*testing.T, backed){
		"adds a chunk row and leaves the body": func(t *testing.T, s backed) {
			row := appended(t, s, "s", appended(t, s, "s", opened(t, s, "s"), "abc"), "d😀")
			equal(t, row, s.row(plane.Row{Seq: 6, Status: plane.StatusStreaming, Token: node + "/1", Epoch: 1}))
			stored, _ := s.Row("s")
			equal(t, stored.Body, "")
			equal(t, stored.Chunks, []plane.Chunk{{Seq: 3, Text: "abc"}, {Seq: 6, Text: "d😀"}})
		},
		"sees the cancel flag": func(t *testing.T, s backed) {
			row := opened(t, s, "s")
			cancelled(t, s, "s")
			if appended(t, s, "s", row, "abc").Cancel == s.lacks.Cancel {
				t.Error("the flag is not in the answer, or in one of a store without")
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
}

func appendRace(t *testing.T, s backed, row plane.Row) plane.Row {
	texts := []string{"AAAA", "bb"}
	answers, errs := make([]plane.Row, 2), make([]error, 2)
	ctx := bounded(t)
	var both sync.WaitGroup
	for n, text := range texts {
		both.Go(func() {
			slice := plane.Slice{ID: "s", Token: row.Token, From: row.Seq, Seq: row.Seq + plane.Units(text), Text: text}
			for answers[n], errs[n] = s.Append(ctx, slice); errors.Is(errs[n], store.ErrBusy); {
				answers[n], errs[n] = s.Append(ctx, slice)
			}
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

// testIdleAppend is of appends that change nothing.
func testIdleAppend(t *testing.T, open func(testing.TB) backed) {
	for name, slice := range map[string]plane.Slice{
		"a repeat":              {From: 3, Seq: 6, Text: "def"},
		"an overlap":            {From: 3, Seq: 9, Text: "defghi"},
		"a gap":                 {From: 7, Seq: 9, Text: "hi"},
		"another owner's":       {From: 6, Seq: 9, Text: "ghi", Token: "n2/boot1/1"},
		"an earlier epoch's":    {From: 6, Seq: 9, Text: "ghi", Token: node + "/0"},
		"one that has no owner": {From: 6, Seq: 9, Text: "ghi", Token: "-"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			if s.lacks.Tokens && slice.Token != "" {
				return // nothing tells it from the owner's
			}
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
	t.Run("to an ended row", func(t *testing.T) {
		s := open(t)
		row := appended(t, s, "s", opened(t, s, "s"), "abc")
		end := sealed(t, s, plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, From: 3, Seq: 3, Text: "abc"})
		slice := plane.Slice{ID: "s", Token: row.Token, From: 3, Seq: 4, Text: "d"}
		equal(t, must(s.Append(bounded(t), slice))(t), end)
		stored, _ := s.Row("s")
		equal(t, stored.Chunks, nil)
	})
}
