package upstream_test

import (
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/router/upstream"
)

// A producer's line, as the Go client writes it.
func BenchmarkNDJSONLine(b *testing.B) {
	const line = `{"text":" word"}` + "\n"
	body := strings.NewReader(strings.Repeat(line, b.N))
	b.ReportAllocs()
	b.SetBytes(int64(len(line)))
	n := 0
	for _, err := range upstream.Deltas(b.Context(), body, upstream.NDJSON, upstream.Options{}) {
		if err != nil {
			b.Fatal(err)
		}
		n++
	}
	if n != b.N {
		b.Fatalf("%d deltas of %d", n, b.N)
	}
}
