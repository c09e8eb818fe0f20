package pgcontract

import (
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

// testFold shows what a seal folds by what the chunks hold by then.
func testFold(t *testing.T, open func(testing.TB) *Subject) {
	for name, c := range map[string]struct {
		edit func(*storetest.Row)
		want string
	}{
		"the chunks":                  {func(r *storetest.Row) { r.Chunks[0].Text, r.Chunks[1].Text = "äB😀", "CD" }, "äB😀CDef"},
		"unless one is gone":          {func(r *storetest.Row) { r.Chunks = r.Chunks[1:] }, "äb😀cdef"},
		"unless all are gone":         {func(r *storetest.Row) { r.Chunks = nil }, "äb😀cdef"},
		"unless one is longer by now": {func(r *storetest.Row) { r.Chunks[1].Text += "!" }, "äb😀cdef"},
		"unless there is another":     {func(r *storetest.Row) { r.Chunks = append(r.Chunks, plane.Chunk{Seq: 9, Text: "x"}) }, "äb😀cdef"},
		"unless they reach further": {func(r *storetest.Row) {
			r.Seq, r.Chunks = 7, append(r.Chunks, plane.Chunk{Seq: 7, Text: "e"})
		}, "äb😀cdef"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			row := s.append(t, "s", s.append(t, "s", s.claim(t, "s"), "äb😀"), "cd")
			s.Edit("s", c.edit)
			seal := plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, From: 6, Seq: 8, Text: "äb😀cdef"}
			end, err := s.Seal(t.Context(), seal)
			want := plane.Row{Seq: 8, Status: plane.StatusComplete, Token: row.Token, Epoch: 1}
			if err != nil || end != want {
				t.Fatalf("got %+v, %v", end, err)
			}
			if now, _ := s.Row("s"); now.Body != c.want || now.Seq != 8 || len(now.Chunks) != 0 {
				t.Errorf("the row is %+v", now)
			}
		})
	}
}
