package router

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/generate"
	"rillkeep.dev/rillkeep/router/upstream"
)

func TestWhatAProviderSaysIsKeptAsEveryStoreTakesIt(t *testing.T) {
	for raw, want := range map[string]string{
		`{"total_tokens":29, "x":[1.5]}`: `{"total_tokens":29,"x":[1.5]}`,
		`"\ud83d"`:                       `"` + "\uFFFD" + `"`,
		`"a\u0000"`:                      ``,
		`1e999`:                          ``,
		`{`:                              ``,
		``:                               ``,
		`"` + strings.Repeat("x", maxUsage) + `"`: ``,
	} {
		if got := string(storable(json.RawMessage(raw))); got != want {
			t.Errorf("%.40q became %q, want %q", raw, got, want)
		}
	}
	long := strings.Repeat("ü", maxWord)
	for said, want := range map[string]string{"stop": "stop", "st\x00op\n": "stop", long: long[:maxWord], "a" + long: "a" + long[:maxWord-2]} {
		if got := word(said); got != want {
			t.Errorf("%.20q became %.20q", said, got)
		}
	}
}

// described is what is told of a stream with its seal.
func TestWhatIsKeptOfAGeneration(t *testing.T) {
	client, err := generate.New(generate.Config{Upstreams: []generate.Upstream{{Name: "m", Format: upstream.OpenAI, URL: "http://127.0.0.1"}}})
	if err != nil {
		t.Fatal(err)
	}
	job, err := client.Job("m", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	o, err := newOrder("m1", job, "", json.RawMessage(`{"chat":17}`))
	if err != nil {
		t.Fatal(err)
	}
	meta, err := o.describe(generate.Result{Summary: upstream.Summary{FinishReason: "stop", Model: "m-large", Usage: []byte(`{"total_tokens":29}`)}})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"chat":17,"generation":{"upstream":"m","request":"` + job.Fingerprint() + `","model":"m-large","finishReason":"stop","usage":{"total_tokens":29}}}`
	if string(meta) != want {
		t.Errorf("%s, want %s", meta, want)
	}
}

func TestAReplyWaitsForItsClientWithinABound(t *testing.T) {
	reported := &upstream.Error{Type: "overloaded"}
	for name, tt := range map[string]struct {
		adds []string
		end  error
		got  string
		err  error
	}{
		"whole":             {[]string{"ab", "cd"}, nil, "abcd", io.EOF},
		"broken off":        {[]string{"ab"}, upstream.ErrTruncated, "ab", upstream.ErrTruncated},
		"an error of its":   {[]string{"ab"}, reported, "ab", io.EOF},
		"a refusal":         {nil, reported, "", reported},
		"too much":          {[]string{"abcd", "efgh", "x"}, nil, "abcd", errSlowClient},
		"stopped by others": {[]string{"ab"}, plane.ErrCancelled, "ab", plane.ErrCancelled},
	} {
		r := newReply(6)
		for i, p := range tt.adds {
			if i == 0 {
				r.Head(http.Header{"Content-Type": {"text/event-stream"}})
			}
			r.Add([]byte(p))
		}
		r.end(tt.end)
		if p, err := r.next(t.Context()); string(p) != tt.got || !errors.Is(err, tt.err) {
			t.Errorf("%s: %q, %v", name, p, err)
		}
	}
	r := newReply(6)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that has gone: %v", err)
	}
	r.leave()
	for range 10 {
		r.Add([]byte("abcdef"))
	}
	if len(r.waits) > 0 || r.err != nil {
		t.Error("it waits for a client that has gone")
	}
}
