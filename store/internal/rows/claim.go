package rows

import (
	"fmt"
	"strings"

	"rillkeep.dev/rillkeep/plane"
)

// owns reports whether a row is node's (node/incarnation), in whatever epoch.
func owns(node string, row plane.Row) bool {
	return row.Status == plane.StatusStreaming && row.Token == plane.MakeToken(node, row.Epoch, row.Origins())
}

// CheckRun reports what is no name of a node or an incarnation.
func CheckRun(node, incarnation string) error {
	for _, name := range []string{node, incarnation} {
		if name == "" || strings.Contains(name, "/") {
			return fmt.Errorf("%q is no name of a node or an incarnation", name)
		}
	}
	return nil
}

// Found is a row as an open finds it.
type Found struct {
	plane.Row
	NullSeq bool // the stored length is NULL
	HasText bool // the body is not empty, or chunk rows are left
}

// Judge says what an open by node (node/incarnation) makes of a row. A nil
// error means that it may be claimed, or, if own, that it is a claim of node
// itself whose answer was lost and is to be answered as it is.
func Judge(node string, row Found) (own bool, err error) {
	streaming := row.Status == plane.StatusStreaming
	switch {
	case row.NullSeq:
		return false, plane.ErrNullLength
	case streaming && !owns(node, row.Row):
		return false, fmt.Errorf("%w: %q", plane.ErrHeld, row.Token)
	case row.Seq != 0:
		return false, fmt.Errorf("%w: its length is %d", plane.ErrExists, row.Seq)
	case row.HasText:
		return false, fmt.Errorf("%w: its length is 0, but text is left", plane.ErrExists)
	default:
		return streaming, nil
	}
}

// JudgeLost is Judge for a claim that found the row free, or none, and then did
// not get it: another was first.
func JudgeLost(node string, row Found) (own bool, err error) {
	own, err = Judge(node, row)
	if own || err != nil && row.Status != plane.StatusStreaming {
		return own, err
	}
	return false, fmt.Errorf("%w: it is %s under %q", plane.ErrLostRace, row.Status, row.Token)
}
