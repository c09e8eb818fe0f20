package node_test

import (
	"net/http"
	"testing"

	"rillkeep.dev/rillkeep/router/auth"
	"rillkeep.dev/rillkeep/router/generate/modeltest"
)

// A denial is the same for a stream that is there and one that is not (A).
func TestADenialOfAProducerSaysNothingOfTheStream(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	p := modeltest.New(t, modeltest.Answer{Body: response(t, "openai-usage.sse")})
	cfg := calling(p)
	cfg.Keys = k.Keys
	n := openNode(t, cfg)
	n.client = n.as(k.token(t, auth.Claims{Ops: []auth.Op{auth.Write}, Streams: []string{"there"}}))
	n.open("there")
	bearer := []string{"Authorization", "Bearer " + k.token(t, auth.Claims{Ops: []auth.Op{auth.Write}, Streams: []string{"mine"}})}
	for call, body := range map[string]string{
		"": `{"resume":true}`, "keepalive?epoch=1.1": "", "keepalive?epoch=nonsense": "", "append?epoch=9.9&from=7": "x",
		"pump?epoch=9.9": "x", "flush?epoch=9223372036854775807.1": "", "close?epoch=1.1": "", "generate": aRequest, "generate?x": "{",
	} {
		target := func(id string) string {
			if call == "" {
				return path(id)
			}
			return path(id) + "/" + call
		}
		there := n.do(http.MethodPost, target("there"), body, bearer...)
		wantError(t, call, there, http.StatusForbidden, "forbidden")
		if absent := n.do(http.MethodPost, target("absent"), body, bearer...); absent.body != there.body || absent.status != there.status {
			t.Errorf("%s: %d %s and %d %s", call, there.status, there.body, absent.status, absent.body)
		}
	}
	there, absent := n.completes("there", aCompletion, bearer...), n.completes("absent", aCompletion, bearer...)
	wantError(t, "completion", there, http.StatusForbidden, "forbidden")
	if there.body != absent.body {
		t.Errorf("%s and %s", there.body, absent.body)
	}
	if len(p.Calls()) > 0 {
		t.Error("a model was called")
	}
}
