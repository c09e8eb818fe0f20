package rows_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// What a statement puts together is what Taken is.
func TestATakenTokenIsOfItsParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row := plane.Row{Epoch: rapid.Int64Range(1, 1<<40).Draw(t, "epoch"), Seq: rapid.Int64Range(0, 1<<40).Draw(t, "seq")}
		origins := plane.Origins(rapid.SliceOfN(rapid.Int64Range(0, 1<<40), 0, plane.MaxOrigins).Draw(t, "origins"))
		row.Token = plane.MakeToken("n1/boot1", row.Epoch, origins)
		want := rows.Taken("n2/boot1", row)
		parts := plane.MakeToken("n2/boot1", row.Epoch+1, nil) + rows.Earlier(row.Token) + plane.MakeToken("", row.Seq, nil)[1:]
		if parts != want {
			t.Fatalf("%q of its parts, want %q", parts, want)
		}
	})
}

func TestTakeoversThatChangedNothing(t *testing.T) {
	const old, own = "n1/boot1/3/5", "n2/boot1/4/5,9"
	for name, c := range map[string]struct {
		asked, token string
		epoch        int64
		status       plane.Status
		lasts        bool
		want         error
	}{
		"its own, whose answer was lost":       {old, own, 4, plane.StatusStreaming, true, nil},
		"its own, and its lease is over":       {old, own, 4, plane.StatusStreaming, false, nil},
		"its own of another epoch":             {"n1/boot1/2", own, 4, plane.StatusStreaming, true, plane.ErrHeld},
		"its own, asked for with itself":       {own, own, 4, plane.StatusStreaming, true, plane.ErrHeld},
		"its own, asked for with no token":     {"", "n2/boot1/1", 1, plane.StatusStreaming, false, plane.ErrLostRace},
		"its own, asked for with a mark":       {"/1.1/3", own, 4, plane.StatusStreaming, false, plane.ErrLostRace},
		"the owner's, who lives":               {old, old, 3, plane.StatusStreaming, true, plane.ErrHeld},
		"another's by now, who lives":          {old, "n3/boot1/4/5,9", 4, plane.StatusStreaming, true, plane.ErrHeld},
		"another's by now, who is dead":        {old, "n3/boot1/4/5,9", 4, plane.StatusStreaming, false, plane.ErrLostRace},
		"disowned by now":                      {old, "/1.1/3/5", 3, plane.StatusStreaming, false, plane.ErrLostRace},
		"ended by whoever would have taken it": {old, own, 4, plane.StatusComplete, true, plane.ErrClosed},
		"not opened":                           {old, "", 0, plane.StatusPending, false, plane.ErrNotFound},
	} {
		row := plane.Row{Token: c.token, Epoch: c.epoch, Status: c.status}
		if err := rows.JudgeTakeover("n2/boot1", c.asked, row, c.lasts); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
