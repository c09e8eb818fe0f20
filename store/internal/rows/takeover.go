package rows

import (
	"fmt"
	"strconv"
	"strings"

	"rillkeep.dev/rillkeep/plane"
)

// Takes reports whether a takeover with token changes a row, if the lease of its
// owner is over.
func Takes(token string, row plane.Row) bool {
	return row.Status == plane.StatusStreaming && row.Token == token && plane.NodeOf(token) != ""
}

// Taken is the token of a row that node takes over.
func Taken(node string, row plane.Row) string {
	return plane.MakeToken(node, row.Epoch+1, row.Origins().Begin(row.Seq))
}

// Earlier is what Taken has between the epoch and the offset at which that begins,
// for a row under token: with the slash, the origins that are kept of it.
func Earlier(token string) string {
	made := plane.MakeToken("", 0, plane.Row{Token: token}.Origins().Begin(0))
	return strings.TrimSuffix(strings.TrimPrefix(made, "/0"), "0")
}

// JudgeTakeover says what a takeover with token by node (node/incarnation) makes of
// a row that it did not change; lasts says that its owner's lease does. A nil error
// means that node has taken the row over already.
func JudgeTakeover(node, token string, row plane.Row, lasts bool) error {
	switch {
	case row.Status.Ended():
		return fmt.Errorf("%w: it has ended: %s", plane.ErrClosed, row.Status)
	case row.Status != plane.StatusStreaming:
		return fmt.Errorf("%w: it has not been opened", plane.ErrNotFound)
	case owns(node, row) && plane.NodeOf(token) != "" && epoch(token) == row.Epoch-1:
		return nil
	case lasts:
		return fmt.Errorf("%w: %q", plane.ErrHeld, row.Token)
	default:
		return fmt.Errorf("%w: it is %q", plane.ErrLostRace, row.Token)
	}
}

// epoch is that of an owner token or a mark; 0 if it has none.
func epoch(token string) int64 {
	parts := strings.SplitN(token, "/", 4)
	if len(parts) < 3 {
		return 0
	}
	n, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return 0
	}
	return n
}
