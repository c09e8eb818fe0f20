package plane

import "context"

// Takeover is what a Store does for a producer whose stream's owner died.
type Takeover interface {
	// TakeOver makes the row of claim.ID claim.Node's in a new epoch, the row's plus
	// one, which begins where the durable text ends, and answers it: its Origins have
	// that offset, its Producer is claim.Producer, its text and cancel flag stay. It is
	// one conditional write: the row is streaming under token, and the lease of the node
	// which that names is over by the database's clock, or it never had one.
	// claim.Meta is not looked at. A row that was disowned is to be adopted, with
	// nothing lost: it is not taken over.
	//
	// It refuses, changing nothing, with ErrNotFound (no row, or one that was not opened
	// yet), ErrClosed (it has ended), ErrHeld (its owner's lease lasts, or a node that
	// is alive has it by now) or ErrLostRace (the token is another by now, and nobody's, or names no node).
	// errors.ErrUnsupported where the store has no place for owner tokens.
	// A row that is claim.Node's own in the epoch after token's is a takeover whose
	// answer was lost: it is answered as it is.
	TakeOver(ctx context.Context, token string, claim Claim) (Row, error)
}
