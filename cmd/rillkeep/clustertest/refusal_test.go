package clustertest

import (
	"net"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// gossip starts a node with a database of its own, and answers where others join it.
func gossip(t *testing.T) (c *cluster, at string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at = l.Addr().String()
	_ = l.Close()
	return open(t, 1, "--gossip-listen", at), at
}

func TestANodeThatCannotBeOneOfTheClusterSaysWhyAndEnds(t *testing.T) {
	t.Parallel()
	c, at := gossip(t)
	for name, tt := range map[string]struct {
		secret, database string
		args             []string
		want             string
	}{
		"another secret":       {"another secret of a cluster", c.database, []string{"--name", "n2"}, "secret"},
		"another cluster":      {secret, c.database, []string{"--name", "n2", "--cluster-name", "staging"}, `"staging"`},
		"a taken name":         {secret, c.database, []string{"--name", "n1"}, "another node of that name is running"},
		"a name taken by ring": {secret, pgtest.URL(t), []string{"--name", "n1", "--join", at}, "n1/"},
		"a short secret":       {"short", c.database, []string{"--name", "n2"}, "16 bytes or more"},
		// Report 71, advertise-address.
		"no address to advertise": {secret, c.database, []string{"--name", "n2", "--advertise", "0.0.0.0"}, `Advertise (--advertise) "0.0.0.0"`},
	} {
		t.Run(name, func(t *testing.T) {
			p := launch(t, []string{"RILLKEEP_CLUSTER_SECRET=" + tt.secret}, append([]string{
				"serve", "--listen", "127.0.0.1:0", "--gossip-listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0",
				"--database", tt.database, "--log-level", "error",
			}, tt.args...)...)
			code := p.Ended(t)
			if said := p.Err.String(); code != 1 || !strings.Contains(said, "rillkeep: ") || !strings.Contains(said, tt.want) ||
				strings.Contains(said, tt.secret) && tt.secret != "short" || p.Out.String() != "" {
				t.Errorf("exit code %d, said %q, want %q", code, said, tt.want)
			}
			t.Logf("%s", p.Err)
		})
	}
	c.settle() // none of it harms the one that runs
}
