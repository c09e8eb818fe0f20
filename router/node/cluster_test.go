package node_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

const clusterSecret = "a secret of the test's cluster"

// openCluster starts so many nodes that share a database and are one cluster.
func openCluster(tb testing.TB, size int, cfg node.Config) []*running {
	tb.Helper()
	if cfg.Database == "" {
		cfg.Database = pgtest.URL(tb)
	}
	nodes := make([]*running, size)
	for i := range nodes {
		nodes[i] = joinCluster(tb, fmt.Sprintf("n%d", i+1), cfg)
	}
	awaitMembers(tb, nodes)
	return nodes
}

func joinCluster(tb testing.TB, name string, cfg node.Config) *running {
	tb.Helper()
	cfg.Name = name
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	with := node.Cluster{FlyReplay: cfg.Cluster != nil && cfg.Cluster.FlyReplay}
	with.Secrets, with.GossipListen, with.PeerListen = []string{clusterSecret}, "127.0.0.1:0", "127.0.0.1:0"
	cfg.Cluster = &with
	return openNode(tb, cfg)
}

// awaitMembers waits until all nodes have the same ring, of them all.
func awaitMembers(tb testing.TB, nodes []*running) {
	tb.Helper()
	await(tb, "one ring", func() bool {
		rings := map[string]bool{}
		for _, n := range nodes {
			c := n.cluster()
			active := 0
			for _, m := range c.Members {
				if m.State == "active" {
					active++
				}
			}
			if active != len(nodes) {
				return false
			}
			rings[c.Ring] = true
		}
		return len(rings) == 1
	})
}

func (r *running) cluster() wire.Cluster {
	r.tb.Helper()
	a := r.do(http.MethodGet, "/v1/cluster", "")
	if a.status != http.StatusOK {
		r.tb.Fatalf("cluster: %d %s", a.status, a.body)
	}
	return decode[wire.Cluster](r.tb, a)
}

// host is the node that has a stream, by its row.
func host(tb testing.TB, nodes []*running, id string) (hosting *running, others []*running) {
	tb.Helper()
	name, _, _ := strings.Cut(nodes[0].snapshot(id).Host, "/")
	for _, n := range nodes {
		if n.cfg.Name == name {
			hosting = n
		} else {
			others = append(others, n)
		}
	}
	if hosting == nil {
		tb.Fatalf("%s is at %q", id, name)
	}
	return hosting, others
}

func TestAStreamIsWithItsOwnerWhoeverIsAsked(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3, node.Config{})
	at := map[string]int{}
	for i := range 60 {
		id := fmt.Sprintf("chat/%d ü", i)
		n := nodes[i%3]
		n.open(id)
		hosting, _ := host(t, nodes, id)
		at[hosting.cfg.Name]++
		pos := n.push(id, 0, "Grüße, ", "日本語 ", "und 😀")
		if i%2 == 0 {
			nodes[(i+1)%3].pumpText(id, " und mehr")
			pos += 9
		}
		nodes[(i+2)%3].flush(id)
		if sealed := nodes[(i+1)%3].seal(id); sealed.Status != plane.StatusComplete || sealed.Seq != pos {
			t.Errorf("%s: %+v, want %d", id, sealed, pos)
		}
		if again := nodes[(i+2)%3].seal(id); again.Status != plane.StatusComplete || again.Seq != pos {
			t.Errorf("%s, again: %+v", id, again)
		}
	}
	if len(at) != 3 {
		t.Errorf("streams are at %v", at)
	}
	for i, n := range nodes { // two of them are not its owner
		id := fmt.Sprint("failed ", i)
		nodes[0].open(id)
		a := n.do(http.MethodPost, path(id, "fail"), `{"error":"boom"}`)
		if snap := nodes[0].snapshot(id); a.status != http.StatusOK || snap.Status != plane.StatusError || snap.Error != "boom" {
			t.Errorf("%s: %d %s; it is %+v", id, a.status, a.body, snap)
		}
	}
}

func TestEveryNodeDescribesTheCluster(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3, node.Config{})
	const streams, ended = 12, 3
	for i := range streams {
		nodes[i%3].open(fmt.Sprint("s", i))
	}
	for i := range ended {
		nodes[i].seal(fmt.Sprint("s", i))
	}
	for _, n := range nodes {
		c := n.cluster()
		if name, _, _ := strings.Cut(c.Self, "/"); name != n.cfg.Name || c.Ring == "" || len(c.Members) != 3 {
			t.Fatalf("%s describes %+v", n.cfg.Name, c)
		}
		var share float64
		var live, lingering int
		for i, m := range c.Members {
			if m.Node != nodes[i].cfg.Name || !strings.HasPrefix(m.Name, m.Node+"/") || m.State != "active" || m.URL != nodes[i].URL() ||
				m.Share < 0.2 || m.NodeCounts == nil {
				t.Fatalf("%s describes %+v", n.cfg.Name, m)
			}
			share, live, lingering = share+m.Share, live+m.Streams, lingering+m.Lingering
		}
		if share < 0.999 || share > 1.001 || live != streams-ended || lingering != ended {
			t.Errorf("%s: shares of %v, %d streams, %d lingering", n.cfg.Name, share, live, lingering)
		}
	}
	reading, leave := context.WithCancel(t.Context()) // holds the drain up
	defer leave()
	hosting, others := host(t, nodes, "s11")
	req, err := http.NewRequestWithContext(reading, http.MethodGet, hosting.URL()+path("s11"), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := hosting.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	await(t, "its reader", func() bool { return hosting.metrics()["rillkeep_readers"] == 1 })
	drained := make(chan error, 1)
	go func() { drained <- hosting.Drain(t.Context()) }()
	await(t, "it is seen to drain", func() bool {
		for _, m := range others[0].cluster().Members {
			if m.Node == hosting.cfg.Name {
				return m.State == "draining" && m.Share == 0
			}
		}
		return false
	})
	leave()
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

func TestReadersOfEveryNodeSeeTheText(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3, node.Config{})
	const id = "m1"
	nodes[0].open(id)
	var want strings.Builder
	pos := nodes[0].push(id, 0, "begun: ")
	want.WriteString("begun: ")
	type got struct{ who, text string }
	results := make(chan got)
	var readers int
	for _, n := range nodes {
		for _, query := range []string{"from=0", "from=0&plane=durable", "from=3"} {
			readers++
			go func() {
				text, _ := n.text(id, query)
				results <- got{n.cfg.Name + "?" + query, text}
			}()
		}
	}
	for i := range 200 {
		delta := fmt.Sprintf("%d 😀 ", i)
		want.WriteString(delta)
		pos = nodes[i%3].push(id, pos, delta)
	}
	nodes[1].seal(id)
	for range readers {
		g := <-results
		wanted := want.String()
		if strings.HasSuffix(g.who, "from=3") {
			wanted = wanted[3:]
		}
		if g.text != wanted {
			t.Errorf("%s: %d bytes, want %d", g.who, len(g.text), len(wanted))
		}
	}
}

func TestTheLivePlaneOfAnotherNodeIsTheSame(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 2, node.Config{})
	nodes[0].open("m1")
	hosting, others := host(t, nodes, "m1")
	read := make(chan string)
	go func() {
		text, _ := others[0].text("m1", "plane=live&from=0")
		read <- text
	}()
	pos := hosting.push("m1", 0, "Grüße, ")
	others[0].push("m1", pos, "日本語 und 😀")
	hosting.seal("m1")
	if text := <-read; text != "Grüße, 日本語 und 😀" {
		t.Errorf("read %q", text)
	}
}

func TestReadersOfAnotherNodesStreamAreOneAttach(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 2, node.Config{})
	const id, readers = "m1", 300
	nodes[0].open(id)
	hosting, others := host(t, nodes, id)
	far := others[0]
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var joined, done sync.WaitGroup
	for range readers {
		joined.Add(1)
		done.Go(func() {
			r, err := far.join(ctx, id, "from=0")
			joined.Done()
			if err == nil {
				_ = r.rest() // until it leaves
			}
		})
	}
	joined.Wait()
	pos := hosting.push(id, 0, "to all of them")
	await(t, "one attach", func() bool {
		return hosting.metrics()["rillkeep_readers"] == 1 && far.metrics()["rillkeep_readers"] == readers
	})
	leave()
	done.Wait()
	await(t, "no attach", func() bool { return hosting.metrics()["rillkeep_readers"] == 0 })
	if st := hosting.snapshot(id); st.Status != plane.StatusStreaming {
		t.Errorf("the readers' leaving made it %s", st.Status)
	}
	far.push(id, pos, ", and on")
	if sealed := far.seal(id); sealed.Status != plane.StatusComplete {
		t.Errorf("the readers' leaving made it %s", sealed.Status)
	}
}

func TestADrainedNodesStreamsGoOnElsewhere(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3, node.Config{})
	const streams = 6
	type end struct {
		id, text string
	}
	texts := make(chan end)
	produced := make(chan end)
	leaving := nodes[0]
	var begun sync.WaitGroup
	for i := range streams {
		id := fmt.Sprintf("s%d", i)
		nodes[i%3].open(id)
		for _, n := range nodes[1:] {
			go func() {
				text, _ := n.text(id, "from=0")
				texts <- end{id, text}
			}()
		}
		begun.Add(1)
		go func() {
			var text strings.Builder
			pos := int64(0)
			for k := range 80 {
				if k == 20 {
					begun.Done()
				}
				delta := fmt.Sprintf("%d·", k)
				pos = insist(t, nodes[1+k%2], id, pos, delta)
				text.WriteString(delta)
				time.Sleep(20 * time.Millisecond) // as a model writes
			}
			nodes[1].seal(id)
			produced <- end{id, text.String()}
		}()
	}
	begun.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := leaving.Drain(ctx); err != nil {
		t.Errorf("drain: %v", err)
	}
	want := map[string]string{}
	got := map[string][]string{}
	for range 3 * streams {
		select {
		case e := <-produced:
			want[e.id] = e.text
		case e := <-texts:
			got[e.id] = append(got[e.id], e.text)
		case <-time.After(patience):
			t.Fatal("somebody waits for ever")
		}
	}
	for id, text := range want {
		for _, read := range got[id] {
			if read != text {
				t.Errorf("%s: a reader has %q, want %q", id, read, text)
			}
		}
		if snap := nodes[1].snapshot(id); snap.Text != text || snap.Status != plane.StatusComplete {
			t.Errorf("%s is %s with %q", id, snap.Status, snap.Text)
		}
	}
}

// insist appends until the delta is taken: a stream on its way to another node takes
// none for a moment.
func insist(t *testing.T, n *running, id string, from int64, delta string) int64 {
	for deadline := time.Now().Add(patience); ; {
		ack, err := n.client.Append(t.Context(), id, from, delta)
		if err == nil {
			return ack.Seq
		}
		if time.Now().After(deadline) || t.Context().Err() != nil {
			t.Errorf("append to %s at %d: %v", id, from, err)
			return from
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestAStopReachesTheOwnerFromAnyNode(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3, node.Config{})
	nodes[0].open("m1")
	_, others := host(t, nodes, "m1")
	for _, n := range others[:1] {
		if _, err := n.client.Cancel(t.Context(), "m1"); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the end", func() bool { return others[1].snapshot("m1").Status == plane.StatusCancelled })
}

func TestAStreamOfANodeThatDiedEndsInterrupted(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3, node.Config{LeaseTTL: 2 * time.Second, Grace: time.Second})
	nodes[0].open("m1")
	hosting, others := host(t, nodes, "m1")
	hosting.push("m1", 0, "checkpointed")
	hosting.flush("m1")
	reading := make(chan string)
	go func() {
		text, _ := others[0].text("m1", "from=0")
		reading <- text
	}()
	if err := hosting.Close(); err != nil {
		t.Fatal(err)
	}
	gone := others[1].do(http.MethodPost, path("m1", "append")+"?from=12", `{"text":"x"}`)
	if code := gone.err().Code; code != "unavailable" && code != "closed" { // that it has ended may be known by now
		t.Errorf("append while the owner is gone: %d %s", gone.status, gone.body)
	}
	if text := <-reading; text != "checkpointed" {
		t.Errorf("read %q", text)
	}
	if snap := others[1].snapshot("m1"); snap.Status != plane.StatusInterrupted || snap.Text != "checkpointed" {
		t.Errorf("%+v", snap)
	}
}

func TestAStreamStaysWhereItIsWhenANodeJoins(t *testing.T) {
	t.Parallel()
	cfg := node.Config{Database: pgtest.URL(t)}
	nodes := openCluster(t, 1, cfg)
	for i := range 20 {
		nodes[0].open(fmt.Sprint("s", i))
	}
	nodes = append(nodes, joinCluster(t, "n2", cfg))
	awaitMembers(t, nodes)
	for i := range 20 {
		id := fmt.Sprint("s", i)
		pos := nodes[1].push(id, 0, "from the newcomer, ")
		nodes[0].push(id, pos, "from the host")
		if hosting, _ := host(t, nodes, id); hosting != nodes[0] {
			t.Errorf("%s moved", id)
		}
		nodes[1].seal(id)
		if text, _ := nodes[1].text(id, "from=0"); text != "from the newcomer, from the host" {
			t.Errorf("%s: %q", id, text)
		}
	}
}

func TestAClientCannotPassForANode(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 2, node.Config{})
	nodes[0].open("m1")
	hosting, others := host(t, nodes, "m1")
	for _, n := range []*running{hosting, others[0]} {
		for _, header := range []string{"Rillkeep-Internal-Hop", "Rillkeep-Internal-Caller", "Rillkeep-Internal-Host"} {
			if a := n.do(http.MethodPost, path("m1", "append"), `{"text":"x"}`, header, hosting.cfg.Name); a.status != http.StatusOK {
				t.Errorf("%s: %d %s", header, a.status, a.body)
			}
		}
		for _, route := range []string{path("m1", "where"), path("m1", "adopt"), "/v1/node"} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				if a := n.do(method, route, ""); a.status != http.StatusNotFound && a.status != http.StatusMethodNotAllowed {
					t.Errorf("%s %s: %d %s", method, route, a.status, a.body)
				}
			}
		}
	}
}

// What a node began before it was refused ends with it.
func TestANodeThatItsClusterRefusesEnds(t *testing.T) {
	t.Parallel()
	cfg := node.Config{Listen: "127.0.0.1:0", Data: t.TempDir(), Name: "n1", Cluster: &node.Cluster{
		Secrets: []string{clusterSecret}, GossipListen: "127.0.0.1:0", PeerListen: "127.0.0.1:0", Advertise: "0.0.0.0",
	}}
	ended := make(chan error, 1)
	go func() {
		_, err := node.Open(t.Context(), cfg)
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "Advertise") {
			t.Errorf("opened with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("it hangs")
	}
}

// Others would send it requests for as long as it is in the ring.
func TestANodeWhoseListenerForOthersEndsCannotGoOn(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.Open(t.Context(), node.Config{Listen: "127.0.0.1:0", Data: t.TempDir(), Name: "n1", Cluster: &node.Cluster{
		Secrets: []string{clusterSecret}, GossipListen: "127.0.0.1:0", Listener: listener,
	}})
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	select {
	case <-n.Failed():
	case <-time.After(patience):
		t.Error("it goes on")
	}
	if err := n.Close(); err == nil || !strings.Contains(err.Error(), "serve other nodes") {
		t.Errorf("closed with %v", err)
	}
}
