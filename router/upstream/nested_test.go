package upstream_test

import (
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/router/upstream"
)

// Each error that is looked into is read once more: a client's or a provider's line
// must not buy minutes of the node's time (I).
func TestAnErrorInAnErrorIsLookedIntoOnlySoDeep(t *testing.T) {
	t.Parallel()
	const depth = 4000
	line := strings.Repeat(`{"error":`, depth) + `{"message":"` + strings.Repeat("x ", 400<<10) + `"}` + strings.Repeat("}", depth)
	began := time.Now()
	for _, err := range upstream.Deltas(t.Context(), strings.NewReader(line+"\n"), upstream.NDJSON, upstream.Options{}) {
		if err == nil {
			t.Fatal("no error")
		}
	}
	_ = upstream.ParseError([]byte(line))
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestAnErrorInAnErrorSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"error":"busy"}`:                                  "upstream error: busy",
		`{"error":{"error":{"message":"busy"}}}`:            "upstream error: busy",
		`{"type":"error","error":{"error":{"error":"no"}}}`: "upstream error: no",
	} {
		if got := upstream.ParseError([]byte(body)).Error(); got != want {
			t.Errorf("%s: %q", body, got)
		}
	}
}
