package node

import (
	"context"

	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/lease"
)

// takeLease answers the store as the node's parts are to use it: behind a lease,
// where it is one that several nodes share.
func (n *Node) takeLease(ctx context.Context, cfg Config, name, incarnation string) (store.Store, error) {
	shared, ok := n.shared(cfg)
	if !ok {
		return n.store, nil
	}
	keeper, err := lease.Keep(context.WithoutCancel(ctx), lease.Config{
		Store:     shared,
		Node:      store.Node{Name: name, Incarnation: incarnation, HTTPAddr: n.addr.String(), GossipAddr: n.member.gossipAddr()},
		TTL:       cfg.LeaseTTL,
		Grace:     cfg.Grace,
		Retention: cfg.Retention,
		Regained:  func() { n.gaps.Add(1); note(n.gap) },
		Turned:    func(bool) { note(n.turned) },
		Logger:    n.log,
	})
	if err != nil {
		return nil, err
	}
	n.lease = keeper
	return keeper.Guard(n.store), nil
}

// note puts a note where it is not there yet.
func note(notes chan struct{}) {
	select {
	case notes <- struct{}{}:
	default:
	}
}

// verify looks, after each gap of the lease, which streams are still this node's:
// others may have sealed them, or have them, and those that write nothing are not told.
func (n *Node) verify() {
	for pause := firstPause; ; {
		select {
		case <-n.gap:
		case <-n.base.Done():
			return
		}
		gaps := n.gaps.Load()
		err := n.actors.Verify(n.base)
		if err == nil {
			n.verified.Store(gaps)
			pause = firstPause
			continue
		}
		if n.tryAgain(n.base, "could not look which streams are still this node's; trying again", pause, err) != nil {
			return
		}
		pause = min(2*pause, maxPause)
		note(n.gap)
	}
}

// release gives the node's lease up. One that can't be reached runs out.
func (n *Node) release(ctx context.Context) {
	if n.lease == nil {
		return
	}
	if err := n.lease.Release(ctx); err != nil {
		n.log.Warn("could not release the lease", "error", err)
	}
}

// abandonLease leaves the node's lease to run out.
func (n *Node) abandonLease(context.Context) {
	if n.lease != nil {
		n.lease.Stop()
	}
}
