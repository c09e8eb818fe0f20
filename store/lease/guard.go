package lease

import (
	"context"
	"fmt"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

// Guard returns s as a node with this lease uses it: while the lease is not held
// an Open, an Append, a Seal, a Disown, an Adopt, a TakeOver and a Ping answer
// store.ErrNoLease and ask nothing of s. Streams keep their text meanwhile, as they do when a store is down.
func (k *Keeper) Guard(s store.Store) store.Store { return guard{s, k} }

type guard struct {
	store.Store
	lease *Keeper
}

func (g guard) check(what, id string) error {
	if !g.lease.Held() {
		return fmt.Errorf("%s %q: %w", what, id, store.ErrNoLease)
	}
	return nil
}

// Open claims a stream. See plane.Store.
func (g guard) Open(ctx context.Context, claim plane.Claim) (plane.Row, error) {
	if err := g.check("open", claim.ID); err != nil {
		return plane.Row{}, err
	}
	return g.Store.Open(ctx, claim)
}

// Append adds a slice. See plane.Store.
func (g guard) Append(ctx context.Context, slice plane.Slice) (plane.Row, error) {
	if err := g.check("append to", slice.ID); err != nil {
		return plane.Row{}, err
	}
	return g.Store.Append(ctx, slice)
}

// Seal ends a stream. See plane.Store.
func (g guard) Seal(ctx context.Context, seal plane.Seal) (plane.Row, error) {
	if err := g.check("seal", seal.ID); err != nil {
		return plane.Row{}, err
	}
	return g.Store.Seal(ctx, seal)
}

// Disown gives up a stream. See plane.Handover.
func (g guard) Disown(ctx context.Context, id, token string, session int64) (plane.Row, error) {
	if err := g.check("disown", id); err != nil {
		return plane.Row{}, err
	}
	return g.Store.Disown(ctx, id, token, session)
}

// TakeOver takes a stream over whose owner is dead. See plane.Takeover.
func (g guard) TakeOver(ctx context.Context, token string, claim plane.Claim) (plane.Row, error) {
	if err := g.check("take over", claim.ID); err != nil {
		return plane.Row{}, err
	}
	return g.Store.TakeOver(ctx, token, claim)
}

// Adopt makes a stream that was given up the node's. See plane.Handover.
func (g guard) Adopt(ctx context.Context, id, mark, node string) (plane.Row, error) {
	if err := g.check("adopt", id); err != nil {
		return plane.Row{}, err
	}
	return g.Store.Adopt(ctx, id, mark, node)
}

// Ping reports whether the database answers, and lets this node write.
func (g guard) Ping(ctx context.Context) error {
	if !g.lease.Held() {
		return store.ErrNoLease
	}
	return g.Store.Ping(ctx)
}
