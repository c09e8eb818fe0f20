package upstream_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/router/upstream"
)

// samples are written after the providers' documentation.
var samples = []struct {
	file    string
	format  upstream.Format
	deltas  []string
	failure error
	want    upstream.Summary
}{
	{
		file: "openai-usage.sse", format: upstream.OpenAI, deltas: []string{"Hello", " there"},
		want: upstream.Summary{FinishReason: "stop", Model: "m-large", Events: 6, Usage: []byte(
			`{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":0}}`)},
	},
	{
		file: "openai-reasoning.sse", format: upstream.OpenAI, deltas: []string{"Four", "."},
		want: upstream.Summary{FinishReason: "stop", Model: "m-large", Events: 6, Skipped: 4},
	},
	{
		file: "openai-tools.sse", format: upstream.OpenAI,
		want: upstream.Summary{FinishReason: "tool_calls", Model: "m-large", Events: 6, Skipped: 3},
	},
	{
		file: "openai-refusal.sse", format: upstream.OpenAI,
		want: upstream.Summary{FinishReason: "stop", Model: "m-large", Events: 5, Skipped: 2},
	},
	{
		file: "openai-choices.sse", format: upstream.OpenAI, deltas: []string{"fir", "st"},
		want: upstream.Summary{FinishReason: "length", Model: "m-large", Events: 6, Skipped: 3},
	},
	{
		file: "openai-filter-first.sse", format: upstream.OpenAI, deltas: []string{"Ok"},
		want: upstream.Summary{FinishReason: "stop", Model: "m-large", Events: 5},
	},
	{
		file: "openai-legacy.sse", format: upstream.OpenAI, deltas: []string{"Once", " upon"},
		want: upstream.Summary{FinishReason: "stop", Events: 3},
	},
	{
		file: "openai-no-done.sse", format: upstream.OpenAI, deltas: []string{"All of ", "it."}, failure: upstream.ErrTruncated,
		want: upstream.Summary{FinishReason: "stop", Model: "m-large", Events: 2},
	},
	{
		file: "openai-no-final-blank.sse", format: upstream.OpenAI, deltas: []string{"All of ", "it."},
		want: upstream.Summary{FinishReason: "stop", Model: "m-large", Events: 3},
	},
	{
		file: "openai-no-final-blank-no-done.sse", format: upstream.OpenAI, deltas: []string{"All of ", "it."}, failure: upstream.ErrTruncated,
		want: upstream.Summary{FinishReason: "stop", Model: "m-large", Events: 2},
	},
	{
		file: "openai-cut.sse", format: upstream.OpenAI, deltas: []string{"Some", " of it"}, failure: upstream.ErrTruncated,
		want: upstream.Summary{Model: "m-large", Events: 3},
	},
	{
		file: "openai-halves.sse", format: upstream.OpenAI,
		deltas: []string{"Hi \xED\xA0\xBD", "\xED\xB8\x80!", " \xED\xA0\xBD", "\xED\xB1\x8D"},
		want:   upstream.Summary{FinishReason: "stop", Model: "m-large", Events: 5},
	},
	{
		file: "openai-choice-error.sse", format: upstream.OpenAI, deltas: []string{"Partial"}, failure: errReported,
		want: upstream.Summary{Model: "m-large", Events: 2},
	},
	{
		file: "whole-parts.json", format: upstream.OpenAI, deltas: []string{"Whole", " answer."},
		want: upstream.Summary{FinishReason: "stop", Model: "m-large", Events: 1, Skipped: 1, Usage: []byte(
			"{\n    \"prompt_tokens\": 19,\n    \"completion_tokens\": 10,\n    \"total_tokens\": 29,\n" +
				"    \"prompt_tokens_details\": {\n      \"cached_tokens\": 0\n    }\n  }")},
	},
	{
		file: "whole-empty.json", format: upstream.OpenAI, failure: upstream.ErrEmpty,
		want: upstream.Summary{FinishReason: "stop", Events: 1},
	},
	{file: "whole-other.json", format: upstream.OpenAI, failure: upstream.ErrMalformed, want: upstream.Summary{Events: 1}},
	{file: "whole-error-list.json", format: upstream.OpenAI, failure: errReported, want: upstream.Summary{Events: 1}},
	{
		file: "anthropic-text.sse", format: upstream.Anthropic, deltas: []string{"Hello", "!"},
		want: upstream.Summary{FinishReason: "end_turn", Model: "m-opus", Events: 8, Usage: []byte(`{"input_tokens":25,"output_tokens":15}`)},
	},
	{
		file: "anthropic-thinking-tools.sse", format: upstream.Anthropic, deltas: []string{"The answer is ", "12231."},
		want: upstream.Summary{FinishReason: "tool_use", Model: "m-opus", Events: 17, Skipped: 8, Usage: []byte(`{"input_tokens":25,"output_tokens":89}`)},
	},
	{
		file: "anthropic-error.sse", format: upstream.Anthropic, deltas: []string{"Partial"}, failure: errReported,
		want: upstream.Summary{Model: "m-opus", Events: 4, Usage: []byte(`{"input_tokens":25,"output_tokens":1}`)},
	},
	{
		file: "anthropic-cut.sse", format: upstream.Anthropic, deltas: []string{"Partial"}, failure: upstream.ErrTruncated,
		want: upstream.Summary{Model: "m-opus", Events: 3, Usage: []byte(`{"input_tokens":25,"output_tokens":1}`)},
	},
	{
		file: "anthropic-no-stop.sse", format: upstream.Anthropic, deltas: []string{"All ", "of it."}, failure: upstream.ErrTruncated,
		want: upstream.Summary{FinishReason: "max_tokens", Model: "m-opus", Events: 5, Usage: []byte(`{"input_tokens":25,"output_tokens":3}`)},
	},
	{
		file: "anthropic-whole.json", format: upstream.Anthropic, deltas: []string{"Whole ", "answer."},
		want: upstream.Summary{FinishReason: "end_turn", Model: "m-opus", Events: 1, Skipped: 1, Usage: []byte(`{"input_tokens": 25, "output_tokens": 7}`)},
	},
	{file: "anthropic-whole-error.json", format: upstream.Anthropic, failure: errReported, want: upstream.Summary{Events: 1}},
	{
		file: "responses-text.sse", format: upstream.Responses, deltas: []string{"Hello", " there"},
		want: upstream.Summary{FinishReason: "completed", Model: "m-large", Events: 10, Usage: []byte(responsesUsage)},
	},
	{
		file: "responses-reasoning-tools.sse", format: upstream.Responses, deltas: []string{"42"},
		want: upstream.Summary{FinishReason: "completed", Model: "m-large", Events: 15, Skipped: 3, Usage: []byte(responsesUsage)},
	},
	{
		file: "responses-incomplete.sse", format: upstream.Responses, deltas: []string{"Some"},
		want: upstream.Summary{FinishReason: "max_output_tokens", Model: "m-large", Events: 6, Usage: []byte(responsesUsage)},
	},
	{
		file: "responses-failed.sse", format: upstream.Responses, deltas: []string{"Partial"}, failure: errReported,
		want: upstream.Summary{Model: "m-large", Events: 6},
	},
	{
		file: "responses-error.sse", format: upstream.Responses, deltas: []string{"Partial"}, failure: errReported,
		want: upstream.Summary{Model: "m-large", Events: 6},
	},
	{
		file: "responses-cut.sse", format: upstream.Responses, deltas: []string{"Some", " of it"}, failure: upstream.ErrTruncated,
		want: upstream.Summary{Model: "m-large", Events: 6},
	},
	{
		file: "responses-end-only.sse", format: upstream.Responses, deltas: []string{"All at once.", " And more."},
		want: upstream.Summary{FinishReason: "completed", Model: "m-large", Events: 3, Skipped: 1, Usage: []byte(responsesUsage)},
	},
	{
		file: "responses-halves.sse", format: upstream.Responses, deltas: []string{"Hi \xED\xA0\xBD", "\xED\xB8\x80!"},
		want: upstream.Summary{FinishReason: "completed", Model: "m-large", Events: 7},
	},
	{
		file: "responses-whole.json", format: upstream.Responses, deltas: []string{"Whole", " answer."},
		want: upstream.Summary{FinishReason: "completed", Model: "m-large", Events: 1, Skipped: 1, Usage: []byte(responsesUsage)},
	},
	{file: "responses-whole-failed.json", format: upstream.Responses, failure: errReported, want: upstream.Summary{Events: 1}},
	{
		file: "lines.ndjson", format: upstream.NDJSON, deltas: []string{"One ", "two ", "three\n", "end"},
		want: upstream.Summary{Events: 6, Skipped: 1},
	},
	{
		file: "lines-cut.ndjson", format: upstream.NDJSON, deltas: []string{"kept ", "too "}, failure: upstream.ErrTruncated,
		want: upstream.Summary{Events: 3},
	},
	{
		file: "lines-error.ndjson", format: upstream.NDJSON, deltas: []string{"kept"}, failure: errReported,
		want: upstream.Summary{Events: 2},
	},
	{
		file: "lines-broken.ndjson", format: upstream.NDJSON, deltas: []string{"kept"}, failure: upstream.ErrMalformed,
		want: upstream.Summary{Events: 2},
	},
}

const responsesUsage = `{"input_tokens":19,"input_tokens_details":{"cached_tokens":0},"output_tokens":10,` +
	`"output_tokens_details":{"reasoning_tokens":0},"total_tokens":29}`

func TestSamplesOfTheProviders(t *testing.T) {
	for _, tt := range samples {
		t.Run(tt.file, func(t *testing.T) {
			got := replay(t, load(t, tt.file), tt.format, upstream.Options{})
			if !failedAs(got.err, tt.failure) {
				t.Errorf("failed with %v, want %v", got.err, tt.failure)
			}
			if diff := cmp.Diff(tt.deltas, got.Deltas); diff != "" {
				t.Errorf("deltas (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, got.Summary); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlainTextJoinsCharactersAcrossReads(t *testing.T) {
	body := load(t, "text.txt")
	got := replay(t, body, upstream.Text, upstream.Options{ContentType: "text/plain; charset=utf-8"})
	if got.err != nil || got.text() != string(body) {
		t.Fatalf("text %q, error %v", got.text(), got.err)
	}
	for _, delta := range take(t, iotest.OneByteReader(strings.NewReader(string(body))), upstream.Text, upstream.Options{}).Deltas {
		if strings.ToValidUTF8(delta, "") != delta {
			t.Errorf("%q is part of a character", delta)
		}
	}
	for _, broken := range []string{"a\xFF", "a\xE6\xBC", "\x80\x80\x80\x80b", "a\xF0\x9F\x98"} {
		if got := replay(t, []byte(broken), upstream.Text, upstream.Options{}); got.err != nil || got.text() != broken {
			t.Errorf("%q became %q, %v", broken, got.text(), got.err)
		}
	}
}

func TestSmallBodies(t *testing.T) {
	const text = `data: {"choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n\n"
	tests := []struct {
		name   string
		format upstream.Format
		ctype  string
		body   string
		text   string
		err    error
	}{
		{"nothing", upstream.OpenAI, "", "", "", upstream.ErrEmpty},
		{"nothing", upstream.Anthropic, "", "", "", upstream.ErrEmpty},
		{"nothing", upstream.NDJSON, "", "", "", upstream.ErrEmpty},
		{"nothing", upstream.Text, "", "", "", upstream.ErrEmpty},
		{"blanks", upstream.OpenAI, "", "\uFEFF\r\n\n \n", "", upstream.ErrEmpty},
		{"blanks", upstream.NDJSON, "", "\n\r\n", "", upstream.ErrEmpty},
		{"comments only", upstream.OpenAI, "text/event-stream", ": hi\n\n: hi\n\n", "", upstream.ErrEmpty},
		{"a line of a proxy", upstream.OpenAI, "text/plain", "upstream connect error or disconnect/reset before headers\n", "", upstream.ErrEmpty},
		{"done at once", upstream.OpenAI, "", "data: [DONE]\n\n", "", upstream.ErrEmpty},
		{"done without a finish reason", upstream.OpenAI, "", text + "data: [DONE]\n\n", "a", nil},
		{"done, cut after it", upstream.OpenAI, "", text + "data: [DONE]", "a", nil},
		{"cut in done", upstream.OpenAI, "", text + "data: [DON", "a", upstream.ErrTruncated},
		{"done of a message", upstream.Anthropic, "", "data: {\"type\":\"ping\"}\n\ndata: [DONE]\n\n", "", upstream.ErrTruncated},
		{"data of another kind", upstream.OpenAI, "", text + "data: 5\n\n", "a", upstream.ErrMalformed},
		{"choices of another kind", upstream.OpenAI, "", text + "data: {\"choices\":{\"0\":1}}\n\n", "a", upstream.ErrMalformed},
		{"a message of another kind", upstream.Anthropic, "", "data: {\"type\":5}\n\n", "", upstream.ErrMalformed},
		{"two events glued", upstream.OpenAI, "", text[:len(text)-1] + text, "", upstream.ErrMalformed},
		{"scalars of another kind", upstream.OpenAI, "", "data: {\"model\":5,\"usage\":[],\"choices\":[{\"index\":null,\"delta\":{\"content\":5,\"role\":[]},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", "", nil},
		{"an empty list for a delta", upstream.OpenAI, "", text + "data: {\"choices\":[{\"index\":0,\"delta\":[],\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", "a", nil},
		{"errors that are none", upstream.OpenAI, "", "data: {\"error\":null,\"choices\":[]}\n\ndata: {\"error\":\"\"}\n\n" + text + "data: [DONE]\n\n", "a", nil},
		{"an error event that is no JSON", upstream.OpenAI, "", text + "event: error\ndata: out of memory\n\n", "a", errReported},
		{"an error event with empty data", upstream.OpenAI, "", text + "event: error\ndata\n\n", "a", errReported},
		{"an error that is an object", upstream.OpenAI, "", text + "data: {\"object\":\"error\",\"message\":\"m\",\"code\":400}\n\n", "a", errReported},
		{"text beside an error", upstream.OpenAI, "", text[:len(text)-3] + ",\"error\":{}}\n\n", "a", errReported},
		{"finish reason error", upstream.OpenAI, "", text + "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"error\"}]}\n\ndata: [DONE]\n\n", "a", errReported},
		{"half a JSON body", upstream.OpenAI, "application/json", `{"choices":[{"mess`, "", upstream.ErrTruncated},
		{"a broken JSON body", upstream.OpenAI, "application/json", `{"choices":]`, "", upstream.ErrMalformed},
		{"a JSON body after a mark", upstream.OpenAI, "application/json", "\uFEFF \n" + `{"choices":[{"message":{"content":"a"}}]}`, "a", nil},
		{"a stream called JSON", upstream.OpenAI, "application/json", text + "data: [DONE]\n\n", "a", nil},
		{"a stream called HTML", upstream.OpenAI, "text/html", text + "data: [DONE]\n\n", "", upstream.ErrMalformed},
		{"a response's [DONE] before its end", upstream.Responses, "", "data: {\"type\":\"response.created\"}\n\ndata: [DONE]\n\n", "", upstream.ErrTruncated},
		{"nothing", upstream.Responses, "", "", "", upstream.ErrEmpty},
		{"an end without a response", upstream.Responses, "", "data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\ndata: {\"type\":\"response.completed\"}\n\n", "a", nil},
		{"a failure without a response", upstream.Responses, "", "data: {\"type\":\"response.failed\"}\n\n", "", errReported},
		{"a delta that is a number", upstream.Responses, "", "data: {\"type\":\"response.output_text.delta\",\"delta\":5}\n\n", "", upstream.ErrMalformed},
		{"an error without a type", upstream.Responses, "", "data: {\"error\":{\"message\":\"m\"}}\n\n", "", errReported},
		{"events of another format", upstream.Responses, "", text, "", upstream.ErrMalformed},
		{"a completion", upstream.Responses, "application/json", `{"choices":[{"message":{"content":"a"}}]}`, "", upstream.ErrMalformed},
		{"JSON called text", upstream.Text, "application/json", `{"error":"x"}`, "", upstream.ErrMalformed},
		{"a stream called text", upstream.Text, "text/event-stream", text, "", upstream.ErrMalformed},
		{"bytes called nothing", upstream.Text, "application/octet-stream", "a", "a", nil},
		{"a number in the lines", upstream.NDJSON, "", "\"a\"\n5\n", "a", upstream.ErrMalformed},
		{"a text that is a number", upstream.NDJSON, "", "\"a\"\n{\"text\":5}\n", "a", upstream.ErrMalformed},
		{"lines of another kind", upstream.NDJSON, "", "{\"content\":\"a\"}\n{\"done\":true}\n", "", upstream.ErrMalformed},
		{"text beside an error in a line", upstream.NDJSON, "", "{\"text\":\"a\",\"error\":\"x\"}\n", "a", errReported},
	}
	for _, tt := range tests {
		t.Run(string(tt.format)+" "+tt.name, func(t *testing.T) {
			got := replay(t, []byte(tt.body), tt.format, upstream.Options{ContentType: tt.ctype})
			if !failedAs(got.err, tt.err) || got.text() != tt.text {
				t.Errorf("%q, %v; want %q, %v", got.text(), got.err, tt.text, tt.err)
			}
		})
	}
}

func TestATornConnection(t *testing.T) {
	torn := &net.OpError{Op: "read", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 443}, Err: errors.New("connection reset by peer")}
	for _, file := range []string{"openai-cut.sse", "openai-no-done.sse", "anthropic-cut.sse", "lines-cut.ndjson", "text.txt", "whole-completion.json"} {
		format := upstream.OpenAI
		switch {
		case strings.HasPrefix(file, "anthropic"):
			format = upstream.Anthropic
		case strings.HasSuffix(file, "ndjson"):
			format = upstream.NDJSON
		case strings.HasSuffix(file, "txt"):
			format = upstream.Text
		}
		body := load(t, file)
		got := take(t, io.MultiReader(strings.NewReader(string(body[:len(body)-2])), iotest.ErrReader(torn)), format, upstream.Options{})
		if !errors.Is(got.err, upstream.ErrTruncated) || !errors.Is(got.err, torn) {
			t.Errorf("%s: %v, want ErrTruncated with its cause", file, got.err)
		}
		if strings.Contains(got.Err, "10.1.2.3") {
			t.Errorf("%s: the message names an address: %s", file, got.Err)
		}
	}
	body := load(t, "lines-cut.ndjson")
	if got := take(t, strings.NewReader(string(body)), upstream.NDJSON, upstream.Options{}); !errors.Is(got.err, io.ErrUnexpectedEOF) {
		t.Errorf("cut in a line: %v, want an io.ErrUnexpectedEOF", got.err)
	}
}

func TestBreakingTheLoopStopsReading(t *testing.T) {
	for _, file := range []string{"openai-usage.sse", "anthropic-text.sse", "lines.ndjson", "text.txt", "whole-parts.json"} {
		format := upstream.OpenAI
		switch {
		case strings.HasPrefix(file, "anthropic"):
			format = upstream.Anthropic
		case strings.HasSuffix(file, "ndjson"):
			format = upstream.NDJSON
		case strings.HasSuffix(file, "txt"):
			format = upstream.Text
		}
		in := afterEnd{t, strings.NewReader(string(load(t, file)))}
		n := 0
		for _, err := range upstream.Deltas(t.Context(), in, format, upstream.Options{}) {
			if err != nil {
				t.Error(err)
			}
			n++
			break
		}
		if n != 1 {
			t.Errorf("%s: %d deltas", file, n)
		}
	}
}

func TestCancellingEndsARead(t *testing.T) {
	stopped := errors.New("the producer was stopped")
	for format, line := range map[upstream.Format]string{
		upstream.OpenAI:    "data: " + chunk("a") + "\n\n",
		upstream.Anthropic: `data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}` + "\n\n",
		upstream.NDJSON:    `{"text":"a"}` + "\n",
		upstream.Text:      "a",
	} {
		t.Run(string(format), func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			pr, pw := io.Pipe()
			defer context.AfterFunc(ctx, func() { pr.Close() })()
			go func() { _, _ = pw.Write([]byte(line)) }()
			var got []string
			var failure error
			for delta, err := range upstream.Deltas(ctx, pr, format, upstream.Options{}) {
				got, failure = append(got, delta), err
				cancel(stopped)
			}
			if diff := cmp.Diff([]string{"a", ""}, got); diff != "" || failure != stopped {
				t.Errorf("deltas %q, error %v", got, failure)
			}
		})
	}
}

func TestParseFormat(t *testing.T) {
	for _, f := range []upstream.Format{upstream.OpenAI, upstream.Responses, upstream.Anthropic, upstream.NDJSON, upstream.Text} {
		if got, err := upstream.ParseFormat(string(f)); got != f || err != nil {
			t.Errorf("%q: %q, %v", f, got, err)
		}
	}
	if _, err := upstream.ParseFormat("sse"); err == nil {
		t.Error("sse is no format")
	}
	if got := take(t, strings.NewReader("a"), "sse", upstream.Options{}); got.err == nil {
		t.Error("sse is no format")
	}
}
