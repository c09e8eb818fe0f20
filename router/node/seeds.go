package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"rillkeep.dev/rillkeep/ring"
	"rillkeep.dev/rillkeep/store"
)

// seeds is whom to join: who was named, and who has a lease on the store. A list
// alone would not bring two sides of a partition together again that lasted until
// each had forgotten the other and those on the list were gone.
func (n *Node) seeds(c Cluster) ring.Seeds {
	var all several
	switch {
	case c.JoinDNS != "":
		all = append(all, ring.DNS{Name: c.JoinDNS})
	case len(c.Join) > 0:
		all = append(all, ring.Static{Addrs: c.Join})
	}
	if shared, ok := n.store.(store.Shared); ok {
		all = append(all, leased{shared})
	}
	return all
}

// several are the seeds of each of them.
type several []ring.Seeds

// Peers implements ring.Seeds. Each has its own time: one that does not answer
// keeps nobody from the others.
func (s several) Peers(ctx context.Context) ([]string, error) {
	found, errs := make([][]string, len(s)), make([]error, len(s))
	var asked sync.WaitGroup
	for i, seeds := range s {
		asked.Go(func() { found[i], errs[i] = seeds.Peers(ctx) })
	}
	asked.Wait()
	return slices.Concat(found...), errors.Join(errs...)
}

// leased are the nodes that have a lease on the store.
type leased struct{ store store.Shared }

// Peers implements ring.Seeds.
func (l leased) Peers(ctx context.Context) ([]string, error) {
	nodes, err := l.store.Nodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for nodes in the store: %w", err)
	}
	var peers []string
	for _, n := range nodes {
		if n.GossipAddr != "" {
			peers = append(peers, n.GossipAddr)
		}
	}
	return peers, nil
}
