package upstream_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/router/upstream"
)

// Each event's usage is laid over what was there: a provider that goes on and on must
// not buy minutes of the node's time (I).
func TestUsageThatGrowsWithEachEventIsNotReadAnewForEver(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":7}}}\n\n")
	for i := range 5_000 {
		fmt.Fprintf(&b, "data: {\"type\":\"message_delta\",\"usage\":{\"k%d\":1}}\n\n", i)
	}
	b.WriteString("data: {\"type\":\"message_stop\"}\n\n")
	began := time.Now()
	for _, err := range upstream.Deltas(t.Context(), strings.NewReader(b.String()), upstream.Anthropic, upstream.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
}
