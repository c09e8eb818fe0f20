package node

import (
	"context"

	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/lease"
	"rillkeep.dev/rillkeep/store/postgres/mapped"
)

// takeLease answers the store as the node's parts are to use it: behind a lease,
// where it is one that several nodes share. In tables without a host column no row
// says whose it is, and a lease would be of no use.
func (n *Node) takeLease(ctx context.Context, cfg Config, name, incarnation string) (store.Store, error) {
	shared, ok := n.store.(store.Shared)
	if !ok || cfg.Tables != (mapped.Tables{}) && cfg.Tables.Host == "" {
		return n.store, nil
	}
	keeper, err := lease.Keep(context.WithoutCancel(ctx), lease.Config{
		Store:     shared,
		Node:      store.Node{Name: name, Incarnation: incarnation, HTTPAddr: n.addr.String(), GossipAddr: n.member.gossipAddr()},
		TTL:       cfg.LeaseTTL,
		Grace:     cfg.Grace,
		Retention: cfg.Retention,
		Logger:    n.log,
	})
	if err != nil {
		return nil, err
	}
	n.lease = keeper
	return keeper.Guard(n.store), nil
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
