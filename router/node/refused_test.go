package node_test

import (
	"errors"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/ring"
	"rillkeep.dev/rillkeep/router/node"
)

func TestANodeThatIsKeptOutOfItsClusterSaysSoAndEnds(t *testing.T) {
	t.Parallel()
	first := joinCluster(t, "n1", node.Config{Data: t.TempDir()})
	open := func(change func(*node.Config)) error {
		cfg := first.cfg
		cluster := *cfg.Cluster
		cfg.Name, cfg.Cluster = "n2", &cluster
		change(&cfg)
		failed := make(chan error, 1)
		go func() {
			n, err := node.Open(t.Context(), cfg)
			if err == nil {
				err = n.Close()
			}
			failed <- err
		}()
		select {
		case err := <-failed:
			return err
		case <-time.After(patience):
			t.Fatal("it waits for ever")
			return nil
		}
	}
	for name, c := range map[string]struct {
		change func(*node.Config)
		want   error
	}{
		"no address":     {func(cfg *node.Config) { cfg.Cluster.GossipListen = "127.0.0.1:none" }, nil},
		"another secret": {func(cfg *node.Config) { cfg.Cluster.Secrets = []string{"a secret of another cluster"} }, ring.ErrSecret},
	} {
		err := open(c.change)
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if err := open(func(*node.Config) {}); err != nil { // it left nothing behind: its name, its addresses
			t.Errorf("%s, mended: %v", name, err)
		}
	}
}
