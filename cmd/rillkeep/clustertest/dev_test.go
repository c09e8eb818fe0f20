package clustertest

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/router/client"
)

var serves = regexp.MustCompile(`Rillkeep serves on (http://\S+)\n`)

// devNode is a node as /dev/nodes tells of it.
type devNode struct {
	Name, State string
	PID         int
}

// dev is rillkeep dev.
type dev struct {
	testing.TB
	run *process
	url string
}

func (d *dev) nodes() map[string]devNode {
	d.Helper()
	resp, err := http.Get(d.url + "/dev/nodes")
	if err != nil {
		d.Fatal(err)
	}
	defer resp.Body.Close()
	var list struct{ Nodes []devNode }
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		d.Fatal(err)
	}
	all := map[string]devNode{}
	for _, n := range list.Nodes {
		all[n.Name] = n
	}
	return all
}

func (d *dev) do(name, action string) {
	d.Helper()
	resp, err := http.Post(d.url+"/dev/nodes/"+name+"/"+action, "", nil)
	if err != nil {
		d.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		d.Fatalf("%s of %s: %s", action, name, resp.Status)
	}
}

// again kills or restarts a node, and waits until another process of it is up and in
// the ring of all.
func (d *dev) again(c *cluster, name, action string) {
	d.Helper()
	before := d.nodes()[name].PID
	d.do(name, action)
	if action == "kill" {
		c.await("its end", func() bool { return d.nodes()[name].State == "down" })
		d.do(name, "restart")
	}
	c.await("its return", func() bool { n := d.nodes()[name]; return n.State == "up" && n.PID != before })
	d.one(c)
}

// one waits until all three are one ring.
func (d *dev) one(c *cluster) {
	d.Helper()
	_, cl := c.nodes[0].place()
	c.await("one ring", func() bool {
		seen, err := cl.Cluster(d.Context())
		active := 0
		for _, m := range seen.Members {
			if m.State == "active" {
				active++
			}
		}
		return err == nil && active == 3 && len(seen.Members) == 3
	})
}

func TestDevShowsTheWholeTextThoughNodesAreKilledAndRestarted(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	d := &dev{TB: t, run: launch(t, nil, "dev", "--listen", "127.0.0.1:0", "--data", data, "--drain", "6s")}
	d.run.Printed(t, "dev-3")
	d.url = serves.FindStringSubmatch(d.run.Out.String())[1]
	calls := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	cl, err := client.New(client.Config{Server: d.url, HTTP: calls})
	if err != nil {
		t.Fatal(err)
	}
	// The front is all that clients know.
	c := &cluster{TB: t, nodes: []*node{{name: "front", at: d.url, client: cl}}, calls: calls, reads: calls}
	c.nodes[0].c = c
	d.one(c)

	p := &producer{c: c, text: newText("m1", 600), pause: 50 * time.Millisecond}
	if err := p.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	tail := launch(t, nil, "tail", "m1", "--server", d.url)
	enough, said := make(chan struct{}), make(chan error, 1)
	go func() { said <- p.speak(t.Context(), enough) }()
	tail.Printed(t, "wörds")

	owner := ""
	snap, err := cl.Snapshot(t.Context(), "m1")
	if err != nil {
		t.Fatal(err)
	}
	for name := range d.nodes() {
		if strings.HasPrefix(snap.Host, name+"/") {
			owner = name
		}
	}
	for name := range d.nodes() {
		if name != owner { // what dies with its owner is not to be had
			d.again(c, name, "kill")
		}
	}
	d.again(c, owner, "restart")
	if moved, err := cl.Snapshot(t.Context(), "m1"); err != nil || strings.HasPrefix(moved.Host, owner+"/") {
		t.Errorf("it is at %q still, %v", moved.Host, err)
	}
	close(enough)
	if err := <-said; err != nil {
		t.Fatal(err)
	}
	if err := p.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code := tail.Ended(t); code != 0 || tail.Out.String() != p.text.slice(0, p.pos) {
		t.Errorf("tail: exit code %d, %d bytes of %d", code, len(tail.Out.String()), len(p.text.slice(0, p.pos)))
	}
	if p.resumed > 0 {
		t.Errorf("the producer had to resume %d times", p.resumed)
	}
	d.run.Signal(t, os.Interrupt)
	if code := d.run.Ended(t); code != 0 || strings.Contains(d.run.Err.String(), "panic") {
		t.Errorf("exit code %d", code)
	}
}
