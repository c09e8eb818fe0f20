package node_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/node"
)

// A node that was not given the secret must not take streams that the others can't
// reach, and say so of theirs.
func TestANodeByItselfIsNotOneOfAStoreThatAClusterHas(t *testing.T) {
	t.Parallel()
	onEachShared(t, func(t *testing.T, in func(node.Config) node.Config) {
		first := joinCluster(t, "n1", in(node.Config{}))
		alone := in(node.Config{Listen: "127.0.0.1:0"})
		alone.Name = "n2"
		n, err := node.Open(t.Context(), alone)
		if err == nil {
			_ = n.Close()
		}
		if !errors.Is(err, plane.ErrConfig) || !strings.Contains(err.Error(), "--cluster-secret") || !strings.Contains(err.Error(), `"n1"`) {
			t.Fatalf("opened with %v", err)
		}
		if err := first.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		openNode(t, alone) // it left nothing behind, and the cluster is gone

		log := new(record)
		next := in(node.Config{Logger: log.logger()})
		joinCluster(t, "n3", next) // as a first of several that become a cluster
		if said := log.String(); !strings.Contains(said, `"level":"WARN","msg":"a node that has the same store is in no cluster`) || !strings.Contains(said, `"name":"n2"`) {
			t.Errorf("said %s", said)
		}
	})
}

// A name keeps its node whatever became of the cluster that it was in.
func TestANodeThatDiedInAClusterMayStartByItself(t *testing.T) {
	t.Parallel()
	onEachShared(t, func(t *testing.T, in func(node.Config) node.Config) {
		first := joinCluster(t, "n1", in(node.Config{LeaseTTL: time.Minute}))
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		alone := in(node.Config{})
		alone.Name = "n1"
		openNode(t, alone)
	})
}
