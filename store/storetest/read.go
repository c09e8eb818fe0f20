package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
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

func testList(t *testing.T, open func(testing.TB) backed) {
	ids := []string{
		"%", "%a", "A", "Z", "_", "\\", "a", "a%", "a%b", "a_", "a_b", "a\\b", "aa", "ab", "a\u007f", "a\uD7FF", "a\uE000",
		"a\uFFFF", "a\U00010000", "a\U0010FFFF", "a\U0010FFFFb", "b", "ä", "ä1", "漢字", "'", "\"", "*", "a*", "[a]", " ", "a/b", "\U0010FFFF",
	}
	t.Run("pages", func(t *testing.T) {
		s := open(t)
		for n, id := range ids {
			row := opened(t, s, id)
			if n%3 == 0 {
				sealed(t, s, plane.Seal{ID: id, Token: row.Token, Status: plane.StatusComplete})
			}
		}
		s.Edit("pending", func(*Row) {})
		for _, status := range []plane.Status{"", plane.StatusStreaming, plane.StatusComplete, plane.StatusPending, plane.StatusError} {
			for _, prefix := range []string{"", "a", "%", "a_", "_", "\\", "a%", "ä", "漢", "a\uD7FF", "\U0010FFFF", "a\U0010FFFF", "[", "none"} {
				for _, limit := range []int{0, 1, 3} {
					want := selected(append(slices.Clone(ids), "pending"), ids, status, prefix)
					equal(t, listed(t, s, store.Query{Status: status, Prefix: prefix, Limit: limit}), want)
				}
			}
		}
	})
	t.Run("holds at most a thousand", func(t *testing.T) {
		s := open(t)
		for n := range 1001 {
			s.Edit(fmt.Sprintf("s%04d", n), func(*Row) {})
		}
		equal(t, len(must(s.List(bounded(t), store.Query{}))(t)), 100)
		equal(t, len(must(s.List(bounded(t), store.Query{Limit: 5000}))(t)), 1000)
	})
	t.Run("refuses a status that there is none of", func(t *testing.T) {
		if _, err := open(t).List(bounded(t), store.Query{Status: "done' OR '"}); err == nil {
			t.Error("no error")
		}
	})
}

// selected is what a list should hold; every third of streams is complete.
func selected(all, streams []string, status plane.Status, prefix string) []string {
	var want []string
	for _, id := range all {
		is := plane.StatusPending
		if n := slices.Index(streams, id); n >= 0 {
			is = plane.StatusStreaming
			if n%3 == 0 {
				is = plane.StatusComplete
			}
		}
		if strings.HasPrefix(id, prefix) && (status == "" || status == is) {
			want = append(want, id)
		}
	}
	slices.Sort(want)
	return want
}

// listed reads all pages of a list.
func listed(t *testing.T, s backed, q store.Query) []string {
	t.Helper()
	var ids []string
	for {
		page := must(s.List(bounded(t), q))(t)
		if len(page) > q.Max() {
			t.Fatalf("a page of %d holds %d", q.Max(), len(page))
		}
		for _, stream := range page {
			ids = append(ids, stream.ID)
			q.After = stream.ID
		}
		if len(page) < q.Max() {
			return ids
		}
	}
}

func testRow(t *testing.T, open func(testing.TB) backed) {
	each(t, open, map[string]func(*testing.T, backed){
		"says what was claimed and when": func(t *testing.T, s backed) {
			before := time.Now().Add(-time.Minute) // clocks may differ a little
			claim := plane.Claim{ID: "é/ %", Node: node, Producer: "app \x00", Meta: []byte(`{"b": 1,  "a":[2, "\ud83d"], "b":2}`)}
			row := must(s.Open(bounded(t), claim))(t)
			open := must(s.Get(bounded(t), claim.ID))(t)
			if open.Created.Before(before) || open.Updated.Before(open.Created) || !open.Ended.IsZero() {
				t.Errorf("times: %+v", open)
			}
			row = appended(t, s, claim.ID, row, "abc")
			sealed(t, s, plane.Seal{ID: claim.ID, Token: row.Token, Status: plane.StatusComplete, From: 3, Seq: 3, Text: "abc"})
			got := must(s.Get(bounded(t), claim.ID))(t)
			if got.Ended.Before(got.Created) || got.Updated.Before(open.Updated) {
				t.Errorf("times: %+v", got)
			}
			got.Created, got.Updated, got.Ended = time.Time{}, time.Time{}, time.Time{}
			equal(t, got, store.Stream{
				ID:       claim.ID,
				Row:      plane.Row{Seq: 3, Status: plane.StatusComplete, Token: row.Token, Epoch: 1},
				Producer: "app \uFFFD", Meta: claim.Meta,
			})
			listed := must(s.List(bounded(t), store.Query{}))(t)
			listed[0].Created, listed[0].Updated, listed[0].Ended = time.Time{}, time.Time{}, time.Time{}
			equal(t, listed, []store.Stream{got})
		},
		"without meta has none": func(t *testing.T, s backed) {
			opened(t, s, "s")
			if meta := must(s.Get(bounded(t), "s"))(t).Meta; meta != nil {
				t.Errorf("got %s", meta)
			}
		},
		"is refused where there is none": func(t *testing.T, s backed) {
			if _, err := s.Get(bounded(t), "s"); !errors.Is(err, plane.ErrNotFound) {
				t.Errorf("get: %v", err)
			}
			if _, err := s.Read(bounded(t), "s"); !errors.Is(err, plane.ErrNotFound) {
				t.Errorf("read: %v", err)
			}
		},
		"is not to be had of a closed store": func(t *testing.T, s backed) {
			opened(t, s, "s")
			if err := s.Ping(bounded(t)); err != nil {
				t.Error(err)
			}
			for range 2 {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			if _, err := s.Read(bounded(t), "s"); err == nil || errors.Is(err, plane.ErrNotFound) {
				t.Errorf("read: %v", err)
			}
			if _, err := s.Cancel(bounded(t), "s"); err == nil || errors.Is(err, plane.ErrNotFound) {
				t.Errorf("write: %v", err)
			}
			if err := s.Ping(bounded(t)); err == nil {
				t.Error("it answers a ping")
			}
		},
	})
}

func testInterrupt(t *testing.T, open func(testing.TB) backed) {
	each(t, open, map[string]func(*testing.T, backed){
		"seals what earlier runs of the node left": func(t *testing.T, s backed) {
			tokens := map[string]string{
				"mine": "n1/boot2/1", "old": "n1/boot1/1", "older": "n1/boot0/7", "like": "n1/boot22/1",
				"other": "n2/boot1/1", "prefix": "n11/boot1/1", "wild": "n_/boot1/1", "none": "",
			}
			for id, token := range tokens {
				s.Edit(id, func(r *Row) {
					r.Status, r.Token, r.Seq = plane.StatusStreaming, token, 6
					r.Chunks = []plane.Chunk{{Seq: 4, Text: "ab😀"}, {Seq: 6, Text: "cd"}}
				})
			}
			equal(t, must(s.Interrupt(bounded(t), "n1", "boot2"))(t), 3)
			for id := range tokens {
				stored, _ := s.Row(id)
				if id == "old" || id == "older" || id == "like" {
					equal(t, stored.Status, plane.StatusInterrupted)
					equal(t, stored.Body, "ab😀cd")
					equal(t, stored.Chunks, nil)
				} else {
					equal(t, stored.Status, plane.StatusStreaming)
				}
				equal(t, must(whole(bounded(t), s, id, 0))(t), "ab😀cd")
			}
			equal(t, must(s.Interrupt(bounded(t), "n1", "boot2"))(t), 0)
			equal(t, must(s.Interrupt(bounded(t), "n_", "boot2"))(t), 1)
		},
		"leaves a zombie nothing to write to": func(t *testing.T, s backed) {
			row := appended(t, s, "s", opened(t, s, "s"), "abc")
			equal(t, must(s.Interrupt(bounded(t), "n1", "boot2"))(t), 1)
			before, _ := s.Row("s")
			want := row
			want.Status = plane.StatusInterrupted
			slice := plane.Slice{ID: "s", Token: row.Token, From: 3, Seq: 4, Text: "d"}
			equal(t, must(s.Append(bounded(t), slice))(t), want)
			equal(t, sealed(t, s, plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, From: 3, Seq: 5, Text: "abcde"}), want)
			after, _ := s.Row("s")
			equal(t, after, before)
		},
		"ends a row whose text has a hole": func(t *testing.T, s backed) {
			s.Edit("s", func(r *Row) {
				r.Status, r.Token, r.Seq = plane.StatusStreaming, "n1/boot1/1", 6
				r.Chunks = []plane.Chunk{{Seq: 2, Text: "ab"}, {Seq: 6, Text: "ef"}}
			})
			equal(t, must(s.Interrupt(bounded(t), "n1", "boot2"))(t), 1)
			stored, _ := s.Row("s")
			equal(t, stored.Status, plane.StatusInterrupted)
			equal(t, len(stored.Chunks), 2)
		},
		"of hundreds": func(t *testing.T, s backed) {
			for n := range 250 {
				s.Edit(fmt.Sprintf("s%d", n), func(r *Row) { r.Status, r.Token = plane.StatusStreaming, "n1/boot1/1" })
			}
			equal(t, must(s.Interrupt(bounded(t), "n1", "boot2"))(t), 250)
		},
		"is refused for what is no name": func(t *testing.T, s backed) {
			for _, name := range []string{"", "a/b"} {
				if _, err := s.Interrupt(bounded(t), name, "boot"); err == nil {
					t.Errorf("node %q: no error", name)
				}
				if _, err := s.Interrupt(bounded(t), "n1", name); err == nil {
					t.Errorf("incarnation %q: no error", name)
				}
			}
		},
	})
}
