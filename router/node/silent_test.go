package node_test

import (
	"net/http"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/generate/modeltest"
)

// Of five producers that say nothing, the one that is gone loses its stream.
func TestAProducerThatIsGoneLosesItsStreamAndNoOther(t *testing.T) {
	t.Parallel()
	answer, release := halting(t)
	defer release()
	cfg := calling(modeltest.New(t, answer))
	cfg.ProducerTimeout = 2 * time.Second
	n := openNode(t, cfg)
	for _, id := range []string{"gone", "kept alive", "pumping", "resumed"} {
		n.open(id)
	}
	n.push("gone", 0, "text")
	pump := n.pump("pumping", "from=0", "text/plain")
	n.generate("generated", aRequest)
	n.awaitText("generated", "Hello")
	next := time.Now()
	await(t, "the end of the one that is gone", func() bool {
		if time.Now().After(next) {
			next = time.Now().Add(500 * time.Millisecond)
			for route, body := range map[string]string{path("kept alive", "keepalive"): "", path("resumed"): `{"resume":true}`} {
				if a := n.do(http.MethodPost, route, body); a.status != http.StatusOK {
					t.Fatalf("%s: %d %s", route, a.status, a.body)
				}
			}
		}
		return n.snapshot("gone").Status.Ended()
	})
	wantEnding(t, n, "gone", plane.StatusInterrupted, "text")
	for _, id := range []string{"kept alive", "pumping", "resumed", "generated"} {
		if snap := n.snapshot(id); snap.Status != plane.StatusStreaming {
			t.Errorf("%s: %s", id, snap.Status)
		}
	}
	wantError(t, "keepalive", n.do(http.MethodPost, path("gone", "keepalive"), ""), http.StatusConflict, "closed")
	_ = pump.conn.Close() // and it is gone
	await(t, "the end of the pump's", func() bool { return n.snapshot("pumping").Status == plane.StatusInterrupted })
}
