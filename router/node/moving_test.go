package node_test

import (
	"fmt"
	"net/http"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// Between its two owners a stream is nobody's for a moment: its producer tries again,
// and need not claim it.
func TestAStreamOnItsWayToAnotherNodeIsToBeTriedAgain(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Database: pgtest.URL(t), Name: "n1"})
	n.open("m1")
	n.push("m1", 0, "along")
	n.flush("m1")
	n.sql(`UPDATE rillkeep.streams SET host = '/1/1' WHERE id = 'm1'`)
	other := openNode(t, node.Config{Database: n.cfg.Database, Name: "n2"})
	for _, call := range []struct{ route, body string }{
		{"/append?from=7", `{"text":"x"}`}, {"/flush", ""}, {"/close", ""}, {"/fail", `{"error":"x"}`}, {"", `{"resume":true}`},
	} {
		a := other.do(http.MethodPost, path("m1")+call.route, call.body)
		e := decode[wire.ErrorBody](t, a).Error
		if a.status != http.StatusServiceUnavailable || e.Code != "moved" || e.Want == nil || *e.Want != 5 || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", call.route, a.status, a.body)
		}
	}
}

// The node that hands a stream over may die before another has adopted it: who takes
// it up then is whoever its producer asks.
func TestAStreamThatNobodyAdoptedIsTakenUpForItsProducer(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 2, node.Config{})
	for i, call := range []struct{ route, body string }{
		{"/append?from=5", `{"text":"x"}`}, {"/flush", ""}, {"", `{"resume":true}`},
	} {
		id := fmt.Sprint("m", i)
		nodes[0].open(id)
		hosting, _ := host(t, nodes, id)
		hosting.push(id, 0, "along")
		hosting.flush(id)
		hosting.sql(`UPDATE rillkeep.streams SET host = '/1/1' WHERE id = '` + id + `'`)
		hosting.push(id, 5, "x") // its owner learns by the next write that it has it no more
		_, _ = hosting.client.Flush(t.Context(), id)
		await(t, "another owner", func() bool {
			return nodes[1].do(http.MethodPost, path(id)+call.route, call.body).status == http.StatusOK
		})
		if pos := nodes[0].push(id, 5, "x, and more"); pos != 16 {
			t.Errorf("%s: at %d", id, pos)
		}
		nodes[0].seal(id)
		if text, _ := nodes[1].text(id, "from=0"); text != "alongx, and more" {
			t.Errorf("%s: %q", id, text)
		}
	}
}

// What a reader has from the live plane is, while its stream goes on, on its way
// into the durable one: losing the live plane takes it back nowhere.
func TestAReaderThatLosesTheLivePlaneIsNotTakenBack(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 2, node.Config{Policy: patient()})
	nodes[0].open("m1")
	hosting, others := host(t, nodes, "m1")
	edge := others[0]
	hosting.push("m1", 0, "durable, ")
	hosting.flush("m1")
	hosting.push("m1", 9, "not yet.")
	r := edge.reads("m1", "from=0")
	if err := r.until(17); err != nil {
		t.Fatal(err)
	}
	// Nobody reaches the stream's owner any more.
	hosting.sql(`UPDATE rillkeep.streams SET host = 'elsewhere/1/1' WHERE id = 'm1'`)
	if err := hosting.Close(); err != nil {
		t.Error(err)
	}
	await(t, "the durable plane", func() bool { return edge.metrics()["rillkeep_relay_readers"] == 0 })
	hosting.sql(`INSERT INTO rillkeep.chunks (stream_id, seq, text) VALUES ('m1', 26, 'not yet. And more')`)
	hosting.sql(`UPDATE rillkeep.streams SET seq = 26 WHERE id = 'm1'`)
	if err := r.until(26); err != nil || r.open.From != 0 {
		t.Errorf("at %d, opened by %+v: %v", r.pos, r.open, err)
	}
	hosting.sql(`UPDATE rillkeep.streams SET status = 'interrupted', ended_at = now() WHERE id = 'm1'`)
	if err := r.rest(); err != nil || r.end.Status != plane.StatusInterrupted || r.end.Seq != 26 {
		t.Errorf("%+v, %v", r.end, err)
	}
}
