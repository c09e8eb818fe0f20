package node_test

import (
	"net/http"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/node"
)

// away opens a stream on a cluster of two, and answers the node that does not have it.
func away(t *testing.T, id string, cfg node.Config) *running {
	t.Helper()
	cfg.Data = t.TempDir()
	nodes := []*running{joinCluster(t, "n1", cfg), joinCluster(t, "n2", cfg)}
	awaitMembers(t, nodes)
	nodes[0].open(id)
	_, others := host(t, nodes, id)
	return others[0]
}

func TestAPumpThroughAnotherNodeEndsWithItsAnswerThoughItsBodyIsOpen(t *testing.T) {
	t.Parallel()
	n := away(t, "m1", node.Config{Policy: eager()})
	p := n.pump("m1", "", "application/x-ndjson")
	p.piece("{\"text\":\"text\"}\n")
	if line := p.ack(); line.Seq != 4 {
		t.Fatalf("%+v", line)
	}
	n.seal("m1")
	if line := p.last(); line.Status != plane.StatusComplete || line.Seq != 4 {
		t.Errorf("%+v", line)
	}
	p.want("0\r\n\r\n")
	p.wantEnd()

	refused := n.pump("m1", "", "application/x-ndjson")
	refused.piece("{\"text\":\"more\"}\n")
	if head := refused.head(); head[0] != "HTTP/1.1 409 Conflict" {
		t.Errorf("%q", head)
	}
	if a := n.do(http.MethodGet, "/readyz", ""); a.status != http.StatusOK {
		t.Errorf("%d", a.status)
	}
}
