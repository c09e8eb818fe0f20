package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

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
		if len(page) > rows.MostOf(q) {
			t.Fatalf("a page of %d holds %d", rows.MostOf(q), len(page))
		}
		for _, stream := range page {
			ids = append(ids, stream.ID)
			q.After = stream.ID
		}
		if len(page) < rows.MostOf(q) {
			return ids
		}
	}
}
