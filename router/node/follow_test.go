package node_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/node"
)

// A deploy is nobody's concern who pumps through another node.
func TestAPumpFollowsItsStreamToAnotherNode(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3, node.Config{})
	nodes[0].open("m1")
	hosting, others := host(t, nodes, "m1")
	var want strings.Builder
	begun, drained := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(drained)
		<-begun
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := hosting.Drain(ctx); err != nil {
			t.Errorf("drain: %v", err)
		}
	}()
	source := func(ctx context.Context) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			pace := time.NewTicker(20 * time.Millisecond) // as a model writes
			defer pace.Stop()
			for k := 0; ; k++ {
				delta := fmt.Sprintf("%d 😀 ", k)
				want.WriteString(delta)
				if !yield(delta, nil) {
					return
				}
				if k == 20 {
					close(begun)
				}
				select {
				case <-pace.C:
				case <-drained:
					return
				case <-ctx.Done():
					return
				}
			}
		}
	}
	ack, err := others[0].client.Pump(t.Context(), "m1", 0, source, nil)
	if err != nil || ack.Seq != plane.Units(want.String()) {
		t.Errorf("pumped %d of %d: %v", ack.Seq, plane.Units(want.String()), err)
	}
	others[1].seal("m1")
	if text, _ := others[0].text("m1", "from=0"); text != want.String() {
		t.Errorf("%d bytes, want %d", len(text), want.Len())
	}
}

// L: a sample is played by the node that has it, and ends with that.
func TestASampleOfANodeThatDrainsEndsElsewhere(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 2, node.Config{})
	if a := nodes[0].do(http.MethodPost, "/demo/streams/m1", ""); a.status != http.StatusAccepted {
		t.Fatalf("%d %s", a.status, a.body)
	}
	hosting, others := host(t, nodes, "m1")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := hosting.Drain(ctx); err != nil {
		t.Errorf("drain: %v", err)
	}
	await(t, "the end", func() bool { return others[0].snapshot("m1").Status == plane.StatusInterrupted })
}
