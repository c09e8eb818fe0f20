package rows_test

import (
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"pgregory.net/rapid"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

func TestPagesSplitNoPairAndMakeTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := texts.Draw(t, "text")
		pieces := cut(t, text)
		row := plane.Row{Seq: plane.Units(text)}
		limit := rapid.Int64Range(1, 50).Draw(t, "limit")
		var got strings.Builder
		for at := int64(0); at < row.Seq; {
			page, err := rows.Page(row, false, at, limit, pieces)
			if err != nil || page.From != at || page.Text == "" || !utf8.ValidString(page.Text) {
				t.Fatalf("at %d: %+v, %v", at, page, err)
			}
			got.WriteString(page.Text)
			at = page.End()
		}
		if got.String() != text {
			t.Fatalf("got %q", got.String())
		}
		from := rapid.Int64Range(0, row.Seq).Draw(t, "from")
		page, err := rows.Page(row, false, from, store.MaxPage, pieces)
		if err != nil || page.From < from-1 || page.From > from {
			t.Fatalf("from %d: %+v, %v", from, page, err)
		}
		if units := utf16.Encode([]rune(text)); page.Text != string(utf16.Decode(units[page.From:])) {
			t.Fatalf("from %d: %+v", from, page)
		}
	})
}

func TestMarksAreTheOffsetsOfCharacters(t *testing.T) {
	body := strings.Repeat("a😀漢", rows.MarkEvery)
	runes := []rune(body)
	marks := rows.Marks(body)
	if want := (len(runes) - 1) / rows.MarkEvery; len(marks) != want {
		t.Fatalf("%d marks, want %d", len(marks), want)
	}
	for n, mark := range marks {
		if want := plane.Units(string(runes[:(n+1)*rows.MarkEvery])); mark != want {
			t.Errorf("mark %d is %d, want %d", n, mark, want)
		}
	}
	for _, n := range []int{0, 1, rows.MarkEvery} {
		if marks := rows.Marks(string(runes[:n])); marks == nil || len(marks) != 0 {
			t.Errorf("%d characters have marks %v", n, marks)
		}
	}
}
