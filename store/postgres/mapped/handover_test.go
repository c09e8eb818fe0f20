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
			for _, id := range []string{"fresh", "old", "adopted", "foreign"} {
				row := door.write(t, s, "n1", id, "x😀")
				left, err := s.Disown(t.Context(), id, row.Token)
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
				UPDATE {messages} SET {host} = '/' || (split_part({host}, '/', 2)::bigint - 31000000) || '/1'
				WHERE {id} = 'old'`)
			wantSwept(t, s, 1)
			wantSwept(t, s, 0)
			door.is(t, "old", plane.StatusInterrupted, "x😀")
			for _, id := range []string{"fresh", "adopted", "foreign"} {
				door.is(t, id, plane.StatusStreaming, "x😀")
			}
		})
	}
}
