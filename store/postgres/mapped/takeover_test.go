package mapped_test

import (
	"errors"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

func TestAMessageIsTakenOverWhenItsOwnersLeaseIsOver(t *testing.T) {
	for name, app := range map[string]application{"full": full, "odd": odd} {
		t.Run(name, func(t *testing.T) {
			s, door := app.open(t)
			row := door.write(t, s, "n1", "m1", "x😀")
			owner := store.Node{Name: "n1", Incarnation: "boot1"}
			if _, err := s.Renew(t.Context(), owner, time.Hour); err != nil {
				t.Fatal(err)
			}
			claim := plane.Claim{ID: "m1", Node: "n2/boot1", Producer: "app", Meta: []byte("{}")}
			if got, err := s.TakeOver(t.Context(), row.Token, claim); !errors.Is(err, plane.ErrHeld) {
				t.Errorf("while the lease lasts: %+v, %v", got, err)
			}
			if err := s.Supersede(t.Context(), "n1", "boot2"); err != nil {
				t.Fatal(err)
			}
			want := plane.Row{Seq: 3, Status: plane.StatusStreaming, Token: "n2/boot1/2/3", Epoch: 2, Producer: "app"}
			if got, err := s.TakeOver(t.Context(), row.Token, claim); err != nil || got != want {
				t.Errorf("once it is over: %+v, %v", got, err)
			}
			// The new owner's token, which has more parts, is one to sweep by.
			door.ended("n2", time.Hour)
			wantSwept(t, s, 1)
			door.is(t, "m1", plane.StatusInterrupted, "x😀")
		})
	}
}
