package node_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
)

// asking makes a request of a cluster's node as a client does that is behind an edge: it
// is made again of the node that the edge is told of.
func asking(tb testing.TB, nodes []*running, n *running, target, body string) answer {
	tb.Helper()
	a := n.do(http.MethodPost, target, body)
	name, replay := strings.CutPrefix(a.header.Get("Fly-Replay"), "instance=")
	if !replay {
		return a
	}
	for _, other := range nodes {
		if other != n && other.cfg.Name == name {
			return other.do(http.MethodPost, target, body, "Fly-Replay-Src", "instance="+n.cfg.Name)
		}
	}
	tb.Fatalf("%s leads to %q", n.cfg.Name, name)
	return a
}

// streaming makes a row of five units that no node of the cluster has yet.
func (r *running) streaming(id, host string, epoch int) {
	r.tb.Helper()
	r.sql(fmt.Sprintf(`INSERT INTO rillkeep.streams (id, status, host, epoch, seq, producer) VALUES ('%s', 'streaming', '%s', %d, 5, 'app')`, id, host, epoch))
	r.sql(fmt.Sprintf(`INSERT INTO rillkeep.chunks (stream_id, seq, text) VALUES ('%s', 5, 'text ')`, id))
}

func TestAResumeIsAnsweredAsTheStreamIsByEveryNode(t *testing.T) {
	t.Parallel()
	for name, cluster := range map[string]*node.Cluster{"forwarded": nil, "replayed": {FlyReplay: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := openCluster(t, 3, node.Config{Policy: patient(), Linger: time.Second, Cluster: cluster})
			const app, other = `{"producer":"app","resume":true}`, `{"producer":"other","resume":true}`
			resumed := func(n *running, body string, status int, want wire.Opened) {
				t.Helper()
				a := asking(t, nodes, n, path(want.StreamID), body)
				if a.status != status || decode[wire.Opened](t, a) != want {
					t.Errorf("%s asked for %s: %d %s, want %d %+v", n.cfg.Name, want.StreamID, a.status, a.body, status, want)
				}
			}
			held := func(n *running, id string) {
				t.Helper()
				wantError(t, "another producer", asking(t, nodes, n, path(id), other), http.StatusConflict, "held")
			}
			live := func(id string, seq, durable int64, epoch string) wire.Opened {
				o := wire.Opened{StreamID: id, Seq: seq, DurableSeq: durable, Status: plane.StatusStreaming, ProducerEpoch: epoch}
				_, _ = fmt.Sscan(epoch, &o.Epoch) // as far as it is a number
				return o
			}

			for i, n := range nodes {
				resumed(n, app, http.StatusCreated, live(fmt.Sprint("absent ", i), 0, 0, "1.1"))
				id := fmt.Sprint("pending ", i)
				n.sql(`INSERT INTO rillkeep.streams (id) VALUES ('` + id + `')`)
				resumed(n, app, http.StatusCreated, live(id, 0, 0, "1.1"))
			}

			if a := asking(t, nodes, nodes[0], path("live"), `{"producer":"app"}`); a.status != http.StatusCreated {
				t.Fatal(a)
			}
			_, others := host(t, nodes, "live")
			said := func(n *running, epoch string, from int, text string) answer {
				t.Helper()
				return asking(t, nodes, n, fmt.Sprintf("%s?from=%d&epoch=%s", path("live", "append"), from, epoch), `{"text":"`+text+`"}`)
			}
			said(nodes[1], "1.1", 0, "text ")
			for i, n := range nodes {
				resumed(n, app, http.StatusOK, live("live", 5, 0, fmt.Sprint("1.", i+2)))
				held(n, "live")
				wantError(t, "the one before", said(others[0], fmt.Sprint("1.", i+1), 5, "GHOST"), http.StatusConflict, "fenced")
				if a := said(others[1], fmt.Sprint("1.", i+2), 0, "text "); a.status != http.StatusOK {
					t.Errorf("who is not fenced: %d %s", a.status, a.body)
				}
			}

			for i, n := range nodes {
				id := fmt.Sprint("disowned ", i)
				nodes[0].streaming(id, "/1.4/2", 2)
				held(nodes[(i+1)%3], id)
				resumed(n, app, http.StatusOK, live(id, 5, 5, "2.5"))
				resumed(nodes[(i+2)%3], app, http.StatusOK, live(id, 5, 5, "2.6"))

				id = fmt.Sprint("orphan ", i)
				nodes[0].streaming(id, "dead/x/3", 3)
				resumed(n, other, http.StatusOK, live(id, 5, 5, "4.1")) // whoever it is
				resumed(nodes[(i+1)%3], other, http.StatusOK, live(id, 5, 5, "4.2"))
				wantError(t, "the former producer", asking(t, nodes, nodes[(i+2)%3], path(id), app), http.StatusConflict, "held")
			}

			ends := map[string]struct {
				body string
				want wire.Opened
			}{
				"close":     {"", wire.Opened{Status: plane.StatusComplete}},
				"fail":      {`{"error":"why"}`, wire.Opened{Status: plane.StatusError, Error: "why"}},
				"cancel":    {"", wire.Opened{Status: plane.StatusCancelled}},
				"interrupt": {`{"status":"interrupted"}`, wire.Opened{Status: plane.StatusInterrupted}},
			}
			resumedAll := func() {
				t.Helper()
				for id, end := range ends {
					for _, n := range nodes {
						want := end.want
						want.StreamID, want.Seq, want.DurableSeq, want.Epoch = id, 5, 5, 1
						resumed(n, app, http.StatusOK, want)
						resumed(n, other, http.StatusOK, want)
					}
				}
			}
			for id, end := range ends {
				asking(t, nodes, nodes[0], path(id), `{"producer":"app"}`)
				asking(t, nodes, nodes[1], path(id, "append"), `{"text":"text "}`)
				action := id
				if id == "interrupt" {
					action = "close"
				}
				if a := asking(t, nodes, nodes[2], path(id, action), end.body); a.status/100 != 2 {
					t.Fatalf("%s: %d %s", id, a.status, a.body)
				}
				nodes[1].awaitEnd(id)
			}
			resumedAll()
			for _, n := range nodes {
				await(t, "nobody has them", func() bool { return n.metrics()["rillkeep_streams_lingering"] == 0 })
			}
			resumedAll()
			replayed := nodes[0].do(http.MethodPost, path("absent 1"), other).header.Get("Fly-Replay") != "" ||
				nodes[1].do(http.MethodPost, path("absent 1"), other).header.Get("Fly-Replay") != ""
			if replayed != (cluster != nil) {
				t.Errorf("the edge is asked: %v", replayed)
			}
		})
	}
}
