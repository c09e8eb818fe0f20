package postgres_test

import (
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// TestASealFoldsWhatTheDatabaseHas shows it by what the chunks hold by then.
func TestASealFoldsWhatTheDatabaseHas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sql, want string }{
		"the chunks":                  {"UPDATE rillkeep.chunks SET text = upper(text)", "äB😀CDef"},
		"unless one is gone":          {"DELETE FROM rillkeep.chunks WHERE seq = 4", "äb😀cdef"},
		"unless all are gone":         {"DELETE FROM rillkeep.chunks", "äb😀cdef"},
		"unless one is longer by now": {"UPDATE rillkeep.chunks SET text = text || '!'", "äb😀cdef"},
		"unless there is another":     {"INSERT INTO rillkeep.chunks VALUES ('s', 9, 'x')", "äb😀cdef"},
		"unless they reach further":   {"UPDATE rillkeep.streams SET seq = 7; INSERT INTO rillkeep.chunks VALUES ('s', 7, 'e')", "äb😀cdef"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			s, db := open(t, url), pgtest.Pool(t, url)
			claim(t, s, "s")
			for _, slice := range []plane.Slice{{Seq: 4, Text: "äb😀"}, {From: 4, Seq: 6, Text: "cd"}} {
				slice.ID, slice.Token = "s", token
				if _, err := s.Append(t.Context(), slice); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := db.Exec(t.Context(), c.sql); err != nil {
				t.Fatal(err)
			}
			seal := plane.Seal{ID: "s", Token: token, Status: plane.StatusComplete, From: 6, Seq: 8, Text: "äb😀cdef"}
			row, err := s.Seal(t.Context(), seal)
			want := plane.Row{Seq: 8, Status: plane.StatusComplete, Token: token, Epoch: 1}
			if err != nil || row != want {
				t.Fatalf("got %+v, %v", row, err)
			}
			var body string
			var left int
			err = db.QueryRow(t.Context(), "SELECT body, (SELECT count(*) FROM rillkeep.chunks) FROM rillkeep.streams").Scan(&body, &left)
			if err != nil || body != c.want || left != 0 {
				t.Errorf("body %q, %d chunks left, %v", body, left, err)
			}
		})
	}
}
