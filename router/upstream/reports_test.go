package upstream_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/upstream"
)

// reports are bodies on which products like this one have stumbled. Texts,
// lengths and hashes are facts about the bodies.
var reports = []struct {
	file    string
	format  upstream.Format // openai if ""
	ctype   string
	cuts    [][]int
	text    string
	units   int64
	sha256  string
	skipped int
	junk    int
	finish  string
	failure error // nil: completed. errors.Is, or any *upstream.Error for errReported
	mustNot []string
}{
	{
		file: "line-ends.sse", text: "cr lf crlf mix1 mix2 end", units: 24, finish: "stop",
		sha256: "9f2975940bf534005963e3351869337b29e9d6a857ad49acae04e26868a16be6",
	},
	{
		file: "bom.sse", text: "First in\uFEFFside last", units: 18, finish: "stop", cuts: [][]int{{1, 2, 3}, {3}},
		sha256: "454a074a5f29099b35fb2eff3fa910e62a109a18766723da6925687de8c1c251",
	},
	{
		file: "fields.sse", text: "ABCD", units: 4, finish: "stop",
		sha256: "e12e115acf4552b2568b55e93cbd39394c4ef81c82447fafc997882a02d23677",
	},
	{
		file: "comments.sse", text: "Slow start.", units: 11, finish: "stop", mustNot: []string{"GHOST", "PROCESSING"},
		sha256: "70396f6b8e29603cd0023a68a93b6b93cc20086f25fab8c9fdbaed6b813fdb56",
	},
	{
		file: "wrapped-keepalive.sse", text: "Thinking done", units: 13, finish: "stop", junk: 2, mustNot: []string{"keepalive"},
		sha256: "76230e1621059911ed80ace88cc833680ea68d94ae0ad7c39e7fd7f850923973",
	},
	{
		file: "long-line.sse.gz", units: 1370003, finish: "stop",
		sha256: "618a3ca37b01051273b59c8af5e4f635d765bdbb708b8182d04ee2f948ccd4bf",
	},
	{
		file: "content-array.sse", text: "42!", units: 3, finish: "stop", skipped: 2,
		mustNot: []string{"[object Object]", `"type"`, "six times seven"},
		sha256:  "d3cd6099f5a6964f0fdca64adf1b4971aa3daf56f597bb8eb0367ba8f9384d3d",
	},
	{
		file: "done.sse", text: "Quick answer", units: 12, finish: "stop",
		sha256: "50a40fe2ea6f8d2a6facd771408d3520bc6fdee178908b735421f678ccc2cf0c",
	},
	{
		file: "after-done.sse", text: "Quick answer", units: 12, finish: "stop", mustNot: []string{"GHOST"},
		sha256: "50a40fe2ea6f8d2a6facd771408d3520bc6fdee178908b735421f678ccc2cf0c",
	},
	{file: "error-a-data-error.sse", failure: errReported, text: "Partial", units: 7, sha256: partial},
	{file: "error-b-event-error.sse", failure: errReported, text: "Partial", units: 7, sha256: partial},
	{file: "error-c-string-error.sse", failure: errReported, text: "Partial", units: 7, sha256: partial},
	{file: "error-d-error-as-field-name.sse", failure: upstream.ErrTruncated, text: "Partial", units: 7, sha256: partial},
	{file: "error-e-error-then-done.sse", failure: errReported, text: "Partial", units: 7, sha256: partial},
	{
		file: "error-f-error-with-choices.sse", failure: errReported, text: "Partial", units: 7, sha256: partial,
		mustNot: []string{"sk-CANARY", "CANARY", "10.1.2.3", "8000"},
	},
	{
		file: "responses-failed.sse", format: upstream.Responses, failure: errReported, text: "Partial", units: 7, sha256: partial,
		mustNot: []string{"CANARY", "10.1.2.3", "8000"},
	},
	{
		file: "glued-error.sse", failure: upstream.ErrMalformed, text: "Kept text.", units: 10, mustNot: []string{"half"},
		sha256: "b07a55bfa075bd717a1405961c6fe1610e8226b42e20fd341002d2f24388e440",
	},
	{
		file: "controls.sse", units: 240, finish: "stop",
		sha256: "a11a55117dc7e34879480a0e4d84b86e77f589333b2e85e7db8d8f1139c48866",
	},
	{
		file: "controls.jsonl", format: upstream.NDJSON, units: 240,
		sha256: "a11a55117dc7e34879480a0e4d84b86e77f589333b2e85e7db8d8f1139c48866",
	},
	{
		file: "halves.jsonl", format: upstream.NDJSON, text: "Hi 😀! 👍🏽 ok", units: 14, mustNot: []string{"\uFFFD"},
		sha256: "bf28b4beb36455585a5bc537f539558389794f5f40a7e6cad81ce6901e413fba",
	},
	{file: "halves-low-first.jsonl", format: upstream.NDJSON, text: "\uFFFDx", units: 2},
	{file: "halves-never-completed.jsonl", format: upstream.NDJSON, text: "A\uFFFDB", units: 3, skipped: 1},
	{file: "whole-error.json", ctype: "application/json", failure: errReported},
	{file: "whole-completion.json", ctype: "application/json", text: "Whole answer.", units: 13, finish: "stop"},
	{file: "page.html", ctype: "text/html", failure: upstream.ErrMalformed, mustNot: []string{"html", "Sign", "proxy"}},
	{file: "page.html", ctype: "text/event-stream", failure: upstream.ErrMalformed, mustNot: []string{"html", "Sign", "proxy"}},
	{file: "page.html", format: upstream.Anthropic, failure: upstream.ErrMalformed, mustNot: []string{"html", "Sign", "proxy"}},
	{file: "page.html", format: upstream.NDJSON, failure: upstream.ErrMalformed, mustNot: []string{"html", "Sign", "proxy"}},
	{file: "page.html", format: upstream.Text, ctype: "text/html; charset=utf-8", failure: upstream.ErrMalformed, mustNot: []string{"html", "Sign", "proxy"}},
}

// errReported stands for an *upstream.Error of any content.
var errReported = errors.New("an error that the provider reported")

const partial = "a4d50fb85403654840e078e3ffe72dffe37df3ae280c6d98f39a41d346c88a14"

func failedAs(err, want error) bool {
	if want == errReported {
		var e *upstream.Error
		return errors.As(err, &e)
	}
	return errors.Is(err, want)
}

func TestReportedBodiesComeOutRight(t *testing.T) {
	for _, tt := range reports {
		if tt.format == "" {
			tt.format = upstream.OpenAI
		}
		t.Run(tt.file+" as "+string(tt.format), func(t *testing.T) {
			opts := upstream.Options{ContentType: tt.ctype}
			got := replay(t, load(t, tt.file), tt.format, opts, tt.cuts...)
			if !failedAs(got.err, tt.failure) {
				t.Errorf("failed with %v, want %v", got.err, tt.failure)
			}
			text := valid(got.text())
			if tt.text != "" && text != tt.text || plane.Units(got.text()) != tt.units {
				t.Errorf("text %.80q of %d units, want %q of %d", text, plane.Units(got.text()), tt.text, tt.units)
			}
			if tt.sha256 != "" && digest(text) != tt.sha256 {
				t.Errorf("sha256 %s, want %s", digest(text), tt.sha256)
			}
			for _, s := range tt.mustNot {
				if strings.Contains(text, s) || strings.Contains(got.Err, s) {
					t.Errorf("%q in the text %q or the error %q", s, text, got.Err)
				}
			}
			if sum := got.Summary; sum.Skipped != tt.skipped || sum.Junk != tt.junk || sum.FinishReason != tt.finish {
				t.Errorf("summary %+v, want skipped %d, junk %d, finish %q", sum, tt.skipped, tt.junk, tt.finish)
			}
		})
	}
}

func TestFirstDeltaOfTheLongLines(t *testing.T) {
	got := take(t, strings.NewReader(string(load(t, "long-line.sse.gz"))), upstream.OpenAI, upstream.Options{})
	const want = "887f8cd2b5d726317b0de7ad7eab7adf48170997e9161b75f7493a9a4667e621"
	if len(got.Deltas) == 0 || digest(got.Deltas[0]) != want {
		t.Errorf("%d deltas, the first is not the one of 70 000 characters", len(got.Deltas))
	}
}

// countingReader counts what is taken of it.
type countingReader struct {
	io.Reader
	taken int
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.taken += n
	return n, err
}

func TestOverTheLimitTheTextBeforeIsKept(t *testing.T) {
	const limit = 100_000
	long := strings.Repeat("a", limit)
	tests := []struct {
		format       upstream.Format
		before, line string
	}{
		{upstream.OpenAI, "data: " + chunk("kept") + "\n\n", "data: " + chunk(long)},
		{upstream.OpenAI, "data: " + chunk("kept") + "\n\n", strings.Repeat("data: "+long[:limit/2]+"\n", 3)},
		{upstream.Anthropic, "data: " + `{"type":"content_block_delta","delta":{"type":"text_delta","text":"kept"}}` + "\n\n", "data: " + long},
		{upstream.NDJSON, `"kept"` + "\n", `{"text":"` + long + `"}`},
		{upstream.OpenAI, "", `{"choices":[{"message":{"content":"` + long + `"}}]}`},
	}
	for _, tt := range tests {
		t.Run(string(tt.format), func(t *testing.T) {
			body := tt.before + tt.line + strings.Repeat("b", 20*limit)
			in := &countingReader{Reader: strings.NewReader(body)}
			got := take(t, in, tt.format, upstream.Options{MaxLine: limit})
			if !errors.Is(got.err, upstream.ErrTooLong) {
				t.Fatalf("failed with %v, want ErrTooLong", got.err)
			}
			if want := strings.Repeat("kept", min(1, len(tt.before))); got.text() != want {
				t.Errorf("text %.40q, want %q", got.text(), want)
			}
			if in.taken > 2*limit+128<<10 {
				t.Errorf("took %d bytes for a limit of %d", in.taken, limit)
			}
		})
	}
}

func chunk(text string) string {
	return `{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"` + text + `"},"finish_reason":null}]}`
}

// afterEnd fails the test if it is read once its body has been taken.
type afterEnd struct {
	t    *testing.T
	body io.Reader
}

func (a afterEnd) Read(b []byte) (int, error) {
	n, err := a.body.Read(b)
	if err != nil {
		a.t.Error("the response was over, and it waited for the end of the body")
	}
	return n, err
}

func TestACompleteResponseIsNotWaitedOn(t *testing.T) {
	tests := []struct {
		file   string
		format upstream.Format
	}{
		{"done.sse", upstream.OpenAI},
		{"after-done.sse", upstream.OpenAI},
		{"anthropic-text.sse", upstream.Anthropic},
		{"anthropic-after-stop.sse", upstream.Anthropic},
		{"error-a-data-error.sse", upstream.OpenAI},
		{"whole-completion.json", upstream.OpenAI},
	}
	for _, tt := range tests {
		got := take(t, afterEnd{t, strings.NewReader(string(load(t, tt.file)))}, tt.format, upstream.Options{})
		if strings.Contains(got.text(), "GHOST") || got.text() == "" {
			t.Errorf("%s: text %q", tt.file, got.text())
		}
	}
}

// A server that keeps the connection open after [DONE] is let go of.
func TestTheConnectionIsReleasedAfterDone(t *testing.T) {
	body := load(t, "done.sse")
	released := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(released)
		_, _ = w.Write(body)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer srv.Close()
	resp, err := http.Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	got := take(t, resp.Body, upstream.OpenAI, upstream.Options{ContentType: resp.Header.Get("Content-Type")})
	resp.Body.Close()
	if got.err != nil || got.text() != "Quick answer" {
		t.Errorf("text %q, error %v", got.text(), got.err)
	}
	select {
	case <-released:
	case <-time.After(10 * time.Second):
		t.Error("the server still holds the connection")
	}
}
