package node_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/router/generate/modeltest"
)

// What is kept with a stream is bounded as at its open: a listing has a thousand of
// them (B).
func TestWhatAGenerationKeepsWithItsStreamIsBounded(t *testing.T) {
	t.Parallel()
	p := modeltest.New(t, modeltest.Answer{Body: response(t, "openai-usage.sse")})
	n := openNode(t, calling(p))
	long := strings.Repeat("x", 100<<10)
	for name, with := range map[string]string{
		"meta":     fmt.Sprintf(`"meta":{"a":%q}`, long),
		"producer": fmt.Sprintf(`"producer":%q`, long),
	} {
		a := n.generate(name, `{"upstream":"openai","request":{"model":"m"},`+with+`}`)
		wantError(t, name, a, http.StatusRequestEntityTooLarge, "too_large")
	}
	if a := n.generate("request", fmt.Sprintf(`{"upstream":"openai","request":{"model":"m","messages":[%q]}}`, long)); a.status != http.StatusCreated {
		t.Errorf("a long request: %d %s", a.status, a.body)
	}
	n.awaitEnd("request")
}
