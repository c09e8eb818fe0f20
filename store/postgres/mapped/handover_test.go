package mapped_test

import (
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

// The table does not say when its rows changed; the mark does.
func TestADisownedMessageIsSweptOnceItWasSoForTheGrace(t *testing.T) {
	for name, app := range map[string]application{"full": full, "odd": odd} {
		t.Run(name, func(t *testing.T) {
			s, door := app.open(t)
			for _, id := range []string{"fresh", "old", "taken over and old", "of a release before", "adopted", "foreign"} {
				row := door.write(t, s, "n1", id, "x😀")
				if id == "taken over and old" {
					for _, by := range []string{"n2/boot1", "n3/boot1"} {
						var err error
						if row, err = s.TakeOver(t.Context(), row.Token, plane.Claim{ID: id, Node: by}); err != nil {
							t.Fatal(err)
						}
					}
				}
				left, err := s.Disown(t.Context(), id, row.Token, 1)
				if err != nil || !left.Disowned() {
					t.Fatalf("%+v, %v", left, err)
				}
				if id == "adopted" {
					if _, err := s.Adopt(t.Context(), id, left.Token, "n2/boot1"); err != nil {
						t.Fatal(err)
					}
				}
			}
			door.ended("n1", time.Hour) // whose they were is not asked any more
			door.exec("UPDATE {messages} SET {host} = '/later/1' WHERE {id} = 'foreign'")
			wantSwept(t, s, 0)
			// It is the marks that grow older.
			door.exec(`
				UPDATE {messages} SET {host} = '/' || (substring({host} FROM '^/([0-9]+)[.]1/')::bigint - 31000000) || substring({host} FROM '[.]1/.*$')
				WHERE {id} LIKE '%old'`)
			door.exec("UPDATE {messages} SET {host} = '/1000/1' WHERE {id} = 'of a release before'")
			wantSwept(t, s, 3)
			wantSwept(t, s, 0)
			for _, id := range []string{"old", "taken over and old", "of a release before"} {
				door.is(t, id, plane.StatusInterrupted, "x😀")
			}
			for _, id := range []string{"fresh", "adopted", "foreign"} {
				door.is(t, id, plane.StatusStreaming, "x😀")
			}
		})
	}
}
