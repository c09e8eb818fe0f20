package node_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/generate/modeltest"
)

// There is nothing to checkpoint then, so that no row's flag is seen on the way.
func TestACancelBeforeTheFirstByteEndsTheRequestWithinASecond(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]modeltest.Answer{
		"no head":            {Before: patience},
		"no body":            {Ending: modeltest.Stall},
		"to be asked later":  {Status: http.StatusTooManyRequests, Header: map[string]string{"Retry-After": "25"}},
		"a comment, no text": {Body: []byte(": hold on\n\n"), Ending: modeltest.Stall},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := modeltest.New(t, answer)
			nodes := openCluster(t, 2, calling(p))
			for i, n := range nodes {
				id := fmt.Sprint("m", i)
				if a := n.generate(id, aRequest); a.status != http.StatusCreated {
					t.Fatalf("%d %s", a.status, a.body)
				}
				await(t, "the model is asked", func() bool { return len(p.Calls()) == i+1 })
				_, others := host(t, nodes, id)
				began := time.Now()
				if _, err := others[0].client.Cancel(t.Context(), id); err != nil {
					t.Fatal(err)
				}
				if answer.Status == 0 {
					select {
					case left := <-p.Left():
						if left.Sub(began) > time.Second {
							t.Errorf("the request went on for %v", left.Sub(began))
						}
					case <-time.After(patience):
						t.Fatal("the request goes on")
					}
				}
				snap := n.awaitEnd(id)
				if ended(t, snap) != plane.StatusCancelled || snap.Text != "" {
					t.Errorf("%+v", snap)
				}
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("it ended after %v", took)
				}
			}
			if calls := len(p.Calls()); calls != len(nodes) {
				t.Errorf("%d calls", calls)
			}
		})
	}
}
