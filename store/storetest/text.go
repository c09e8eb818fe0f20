package storetest

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf16"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

// astral holds pairs next to each other, at both ends and in between.
const astral = "😀a😀😀bc漢é😀d😀"

func testText(t *testing.T, open func(testing.TB) backed) {
	each(t, open, map[string]func(*testing.T, backed){
		"at every offset of a streaming row": func(t *testing.T, s backed) {
			row := opened(t, s, "s")
			for _, r := range astral {
				row = appended(t, s, "s", row, string(r))
			}
			everyOffset(t, s, plane.StatusStreaming)
		},
		"at every offset of a sealed row": func(t *testing.T, s backed) {
			row := opened(t, s, "s")
			sealed(t, s, plane.Seal{
				ID: "s", Token: row.Token, Status: plane.StatusComplete, Seq: plane.Units(astral), Text: astral,
			})
			everyOffset(t, s, plane.StatusComplete)
		},
		"of body and chunks": func(t *testing.T, s backed) {
			s.Edit("s", func(r *Row) {
				r.Body, r.Seq = "😀a", plane.Units(astral)
				r.Chunks = []plane.Chunk{
					{Seq: 3, Text: "a"}, {Seq: 5, Text: "a😀"}, {Seq: 10, Text: "😀bc漢"}, {Seq: plane.Units(astral), Text: "é😀d😀"},
				}
			})
			everyOffset(t, s, plane.StatusPending)
		},
		"of a large text": largeText,
		"that is empty": func(t *testing.T, s backed) {
			row := opened(t, s, "s")
			equal(t, must(s.Text(bounded(t), "s", 5, 10))(t), store.Page{Row: row})
		},
		"stops at the length": func(t *testing.T, s backed) {
			s.Edit("s", func(r *Row) {
				r.Seq, r.Chunks = 4, []plane.Chunk{{Seq: 3, Text: "abc"}, {Seq: 6, Text: "def"}}
			})
			equal(t, must(whole(bounded(t), s, "s", 0))(t), "abcd")
		},
		"with a hole says where": func(t *testing.T, s backed) {
			s.Edit("s", func(r *Row) {
				r.Seq, r.Chunks = 6, []plane.Chunk{{Seq: 2, Text: "ab"}, {Seq: 6, Text: "ef"}}
			})
			_, err := s.Text(bounded(t), "s", 1, 0)
			hole, ok := errors.AsType[*plane.HoleError](err)
			if !ok {
				t.Fatalf("got %v", err)
			}
			equal(t, *hole, plane.HoleError{At: 2, Next: 4})
			equal(t, must(s.Text(bounded(t), "s", 4, 0))(t).Text, "ef")
		},
		"is refused where there is no row": func(t *testing.T, s backed) {
			if _, err := s.Text(bounded(t), "s", 0, 0); !errors.Is(err, plane.ErrNotFound) {
				t.Errorf("got %v", err)
			}
		},
	})
}

func everyOffset(t *testing.T, s backed, status plane.Status) {
	units := utf16.Encode([]rune(astral))
	all := int64(len(units))
	for from := int64(-1); from <= all+2; from++ {
		for limit := int64(1); limit <= all+1; limit++ {
			page := must(s.Text(bounded(t), "s", from, limit))(t)
			start := min(max(from, 0), all)
			end := min(start+limit, all)
			if start < all && utf16.IsSurrogate(rune(units[start])) && units[start] >= 0xDC00 {
				start--
			}
			if end < all && units[end] >= 0xDC00 && units[end] <= 0xDFFF {
				if end--; end == start {
					end += 2
				}
			}
			want := string(utf16.Decode(units[start:end]))
			if page.From != start || page.Text != want || page.Seq != all || page.Status != status || page.End() != end {
				t.Fatalf("from %d limit %d: got %+v, want %q from %d", from, limit, page, want, start)
			}
		}
	}
	for limit := range all + 1 {
		equal(t, must(whole(bounded(t), s, "s", limit))(t), astral)
	}
}

// largeText is 12 MB as chunks and as a body.
func largeText(t *testing.T, s backed) {
	line := "Row 0123 äöü 漢字 😀. "
	row := opened(t, s, "s")
	text := strings.Repeat(line, 12_000_000/len(line)+1)
	slice := line + strings.Repeat(line, 4000)
	for rest := text; rest != ""; {
		n := min(len(slice), len(rest))
		row = appended(t, s, "s", row, rest[:n])
		rest = rest[n:]
	}
	check := func() {
		t.Helper()
		var got strings.Builder
		var at int64
		for at < row.Seq {
			page := must(s.Text(bounded(t), "s", at, store.MaxPage/2))(t)
			if page.From != at || page.Text == "" || page.End() > at+store.MaxPage/2 {
				t.Fatalf("asked from %d, got %d units from %d", at, plane.Units(page.Text), page.From)
			}
			got.WriteString(page.Text)
			at = page.End()
		}
		if got.String() != text {
			t.Error("the pages are not the text")
		}
		for limit, most := range map[int64]int64{0: store.DefaultPage, 1 << 40: store.MaxPage} {
			page := must(s.Text(bounded(t), "s", at/2, limit))(t)
			if n := page.End() - page.From; n > most || n < most-1 {
				t.Errorf("a page of %d has %d units", limit, n)
			}
		}
	}
	check()
	sealed(t, s, plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, Seq: row.Seq, Text: text})
	check()
}
