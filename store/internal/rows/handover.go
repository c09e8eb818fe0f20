package rows

import (
	"fmt"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

// Mark is what stands for the owner token of a row that is disowned at a time, by a
// producer's session: /microseconds.session/epoch, and the origins. It is like an
// owner token of a node without a name, and of the moment as its incarnation, so
// that no two are the same.
func Mark(at time.Time, session int64, row plane.Row) string {
	return plane.MakeToken(fmt.Sprintf("/%d.%d", at.UnixMicro(), session), row.Epoch, row.Origins())
}

// Adopted is the token of a row that node adopts.
func Adopted(node string, row plane.Row) string {
	return plane.MakeToken(node, row.Epoch, row.Origins())
}

// JudgeAdoption says what an adoption by node (node/incarnation) makes of a row
// that it did not change. A nil error means that the row is node's already.
func JudgeAdoption(node string, row plane.Row) error {
	switch {
	case row.Status.Ended():
		return fmt.Errorf("%w: it has ended: %s", plane.ErrClosed, row.Status)
	case row.Status != plane.StatusStreaming:
		return fmt.Errorf("%w: it has not been opened", plane.ErrNotFound)
	case owns(node, row):
		return nil
	case row.Disowned():
		return fmt.Errorf("%w: it was disowned anew: %q", plane.ErrLostRace, row.Token)
	default:
		return fmt.Errorf("%w: %q", plane.ErrHeld, row.Token)
	}
}

// Adopts reports whether an adoption with mark changes a row.
func Adopts(mark string, row plane.Row) bool { return row.Disowned() && row.Token == mark }
