package node

import (
	"context"
	"fmt"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres/mapped"
)

// shared is the store, if it is one in which nodes have leases. In tables without a
// host column no row says whose it is, and a lease would be of no use.
func (n *Node) shared(cfg Config) (s store.Shared, ok bool) {
	s, ok = n.store.(store.Shared)
	return s, ok && (cfg.Tables == (mapped.Tables{}) || cfg.Tables.Host != "")
}

// checkCompany refuses to start a node by itself where others are a cluster: they
// could send it nothing that it has, and it them nothing. The other way around it
// is said: nodes that become a cluster one after the other are such for a while.
func (n *Node) checkCompany(ctx context.Context, cfg Config, name string) error {
	shared, ok := n.shared(cfg)
	if !ok {
		return nil
	}
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		call, cancel := context.WithTimeout(ctx, startTimeout)
		nodes, err := shared.Nodes(call)
		cancel()
		if err == nil {
			return n.judgeCompany(cfg, name, nodes)
		}
		if err := n.tryAgain(ctx, "cannot see which nodes the store has; trying again", pause, err); err != nil {
			return err
		}
	}
}

func (n *Node) judgeCompany(cfg Config, name string, nodes []store.Node) error {
	for _, other := range nodes {
		switch clustered := other.GossipAddr != ""; {
		case other.Name == name || clustered == (cfg.Cluster != nil): // an earlier run, or one of its kind
		case clustered:
			return fmt.Errorf("%w: %q, which has the same store, is a node of a cluster, or was until some seconds ago: "+
				"give this one the cluster's secret (--cluster-secret), too, or another store", plane.ErrConfig, other.Name)
		default:
			n.log.Warn("a node that has the same store is in no cluster, and what it has it serves by itself: it needs the cluster's secret, too",
				"name", other.Name, "addr", other.HTTPAddr)
		}
	}
	return nil
}
