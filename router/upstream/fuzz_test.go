package upstream_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/router/upstream"
)

// fuzz checks that no body makes the intake panic or grow, and that none comes
// out differently when it is cut.
func fuzz(f *testing.F, format upstream.Format, patterns ...string) {
	for _, pattern := range patterns {
		files, err := filepath.Glob("testdata/" + pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data, uint64(len(data)))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, seed uint64) {
		opts := upstream.Options{MaxLine: 4096}
		whole := take(t, bytes.NewReader(body), format, opts)
		cut := take(t, &pieces{data: body, cuts: randomCuts(len(body), seed)}, format, opts)
		if diff := cmp.Diff(whole.Deltas, cut.Deltas); diff != "" || whole.Err != cut.Err {
			t.Errorf("whole %v, cut %v (-whole +cut):\n%s", whole.err, cut.err, diff)
		}
		if diff := cmp.Diff(whole.Summary, cut.Summary); diff != "" {
			t.Errorf("summary (-whole +cut):\n%s", diff)
		}
		if len(whole.text()) > 3*len(body) {
			t.Errorf("%d bytes of text from %d", len(whole.text()), len(body))
		}
		if strings.ContainsAny(whole.Err, "\r\n") {
			t.Errorf("an error of several lines: %q", whole.Err)
		}
	})
}

func FuzzOpenAI(f *testing.F) {
	fuzz(f, upstream.OpenAI, "*.sse", "*.json", "*.html")
}

func FuzzResponses(f *testing.F) {
	fuzz(f, upstream.Responses, "responses-*", "error-*")
}

func FuzzAnthropic(f *testing.F) {
	fuzz(f, upstream.Anthropic, "anthropic-*", "error-*")
}

func FuzzNDJSON(f *testing.F) {
	fuzz(f, upstream.NDJSON, "*.ndjson", "*.jsonl", "*.json")
}
