package clustertest

import (
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/ring"
)

// Who works through a node that has not the stream does not see its owner die, and is
// told all the same.
func TestCommandsThroughAnotherNodeSayWhatBecomesOfAStreamWhoseOwnerDies(t *testing.T) {
	t.Parallel()
	c := open(t, 3)
	near := c.nodes[0]
	id, owner := elsewhere(c, near)
	push := launch(t, nil, "push", id, "--server", near.url(), "--patience", "2s")
	if _, err := io.WriteString(push.In, "some text"); err != nil {
		t.Fatal(err)
	}
	c.await("its text", func() bool {
		a := near.ask(http.MethodGet, "/v1/streams/"+id, "", "Accept", "application/json")
		return strings.Contains(a.body, `"durableSeq":9`)
	})
	far := c.nodes[1]
	if far == owner {
		far = c.nodes[2]
	}
	tail := launch(t, nil, "tail", id, "--server", far.url())
	tail.Printed(t, "some text")

	owner.kill()
	killed := time.Now()
	if code := push.Ended(t); code != 1 {
		t.Errorf("push: exit code %d", code)
	}
	t.Logf("push ended %v after the kill", time.Since(killed).Round(time.Millisecond))
	want := regexp.MustCompile(`^rillkeep: the node is away: .+; trying again\nrillkeep: the node of stream ` + id + ` went away in mid-stream: .+; 9 units are known to be durable, and the stream will end interrupted\n` +
		`What is kept of it then is printed by rillkeep show ` + id + `; push the whole again with another id\.\n$`)
	if said := push.Err.String(); !want.MatchString(said) {
		t.Errorf("push said %q", said)
	}
	tail.Said(t, "rillkeep: the stream's node is away, and 9 units are durable; waiting for the stream to go on or to end\n")
	t.Logf("tail said so %v after the kill", time.Since(killed).Round(time.Millisecond))
	if code := tail.EndedWithin(t, sealTime); code != 5 || !strings.HasSuffix(tail.Err.String(), "or to end\nrillkeep: the stream was interrupted\n") {
		t.Errorf("tail: exit code %d, said %q", code, tail.Err)
	}
}

// elsewhere is an id that the ring has at another node than one, and that node.
func elsewhere(c *cluster, than *node) (id string, owner *node) {
	c.Helper()
	_, cl := than.place()
	seen, err := cl.Cluster(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	var members []string
	for _, m := range seen.Members {
		members = append(members, m.Name)
	}
	table, err := ring.NewTable(members, ring.Settings{})
	if err != nil {
		c.Fatal(err)
	}
	for owner = than; owner == than; {
		id += "m"
		at, _ := table.Owner(id)
		owner = c.nodes[slices.IndexFunc(c.nodes, func(n *node) bool { return n.is(at) })]
	}
	return id, owner
}
