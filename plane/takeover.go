package plane

import (
	"context"
	"errors"
	"fmt"
)

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

// TakeOver makes a stream live whose owner died: claim.Node becomes the owner of its
// row, in a new epoch that begins where the durable text ends, and claim.Producer its
// producer, whoever it was, in the first session. What was produced beyond is lost;
// readers who had seen it go back, see Rewind. The text is read back as by Adopt.
//
// It is refused as by Takeover.TakeOver, which then has changed nothing, with
// ErrLostRace if the row was disowned, and is to be adopted, or with
// errors.ErrUnsupported. What else fails is repeated, by the policy. After another
// error the row may be the node's all the same, now or soon: see PutBack, and after
// ErrTextLost, where text is missing in the store, GiveBack.
func TakeOver(ctx context.Context, cfg Config, claim Claim) (*Stream, error) {
	cfg, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	store, ok := cfg.Store.(Takeover)
	if !ok || cfg.Texts == nil {
		return nil, fmt.Errorf("take over stream: %w", errors.ErrUnsupported)
	}
	row, err := claimOrphan(ctx, &cfg, store, claim)
	if err != nil {
		return nil, fmt.Errorf("take over stream: %w", err)
	}
	s, err := revive(ctx, &cfg, claim.ID, row, 1)
	if err != nil {
		return nil, fmt.Errorf("take over stream: %w", err)
	}
	return s, nil
}

// claimOrphan makes a row the node's. All repeats name the owner that was found first:
// by that the store knows a takeover whose answer was lost.
func claimOrphan(ctx context.Context, cfg *Config, store Takeover, claim Claim) (row Row, err error) {
	var found *Row
	_, err = cfg.Policy.repeat(ctx, func() error {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Policy.StoreTimeout)
		defer cancel()
		if found == nil {
			row, err := cfg.Store.Read(call, claim.ID)
			switch {
			case err != nil:
				return err
			case row.Disowned():
				return fmt.Errorf("%w: it was disowned: %q", ErrLostRace, row.Token)
			}
			found = &row
		}
		row, err = store.TakeOver(call, found.Token, claim)
		return err
	}, func(err error) bool {
		return Refused(err) || final(err) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, ErrNoReadBack)
	})
	return row, err
}

// Rewind returns how much of the text up to from is the stream's, for a reader that
// has it of an epoch; see Origins.Rewind.
func (s *Stream) Rewind(from, epoch int64) int64 {
	if epoch == 0 || epoch >= s.epoch {
		return from
	}
	return Row{Token: s.token}.Origins().Rewind(from, epoch, s.epoch)
}
