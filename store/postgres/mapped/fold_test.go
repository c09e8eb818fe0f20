package mapped_test

import (
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

// TestASealFoldsWhatTheDatabaseHas shows it by what the chunks hold by then.
func TestASealFoldsWhatTheDatabaseHas(t *testing.T) {
	apps := map[string]application{"full": full, "bare": bare, "odd": odd}
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
			for kind, app := range apps {
				s, door := app.open(t)
				door.exec("INSERT INTO {messages} ({id}, {seq}) VALUES ('s', 0)")
				row := appended(t, s, "s", claim(t, s, "s"), "äb😀")
				appended(t, s, "s", row, "cd")
				door.Edit("s", c.edit)
				seal := plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, From: 6, Seq: 8, Text: "äb😀cdef"}
				end, err := s.Seal(t.Context(), seal)
				want := plane.Row{Seq: 8, Status: plane.StatusComplete, Token: row.Token, Epoch: 1}
				if err != nil || end != want {
					t.Fatalf("%s: got %+v, %v", kind, end, err)
				}
				if now, _ := door.Row("s"); now.Body != c.want || now.Seq != 8 || len(now.Chunks) != 0 {
					t.Errorf("%s: the row is %+v", kind, now)
				}
			}
		})
	}
}

func TestAFoldKeepsAnErrorsMessageAndACancel(t *testing.T) {
	s, door := full.open(t)
	for id, status := range map[string]plane.Status{"failed": plane.StatusError, "cancelled": plane.StatusComplete} {
		door.exec("INSERT INTO {messages} ({id}, {seq}) VALUES ($1, 0)", id)
		row := appended(t, s, id, claim(t, s, id), "abc")
		door.exec("UPDATE {messages} SET {cancel} = {id} = 'cancelled' WHERE {id} = $1", id)
		seal := plane.Seal{ID: id, Token: row.Token, Status: status, From: 3, Seq: 3, Text: "abc"}
		seal.HasError, seal.Error = id == "failed", "no model"
		if _, err := s.Seal(t.Context(), seal); err != nil {
			t.Fatal(err)
		}
		now, _ := door.Row(id)
		if now.Body != "abc" || string(now.Status) != map[string]string{"failed": "error", "cancelled": "cancelled"}[id] || now.HasError != seal.HasError {
			t.Errorf("%s: the row is %+v", id, now)
		}
	}
}
