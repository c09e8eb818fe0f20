package upstream_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"rillkeep.dev/rillkeep/router/upstream"
)

// failWith returns the error of a stream with this data in its second event.
func failWith(t *testing.T, data string) *upstream.Error {
	t.Helper()
	got := take(t, strings.NewReader("data: "+chunk("a")+"\n\ndata: "+data+"\n\n"), upstream.OpenAI, upstream.Options{})
	var e *upstream.Error
	if !errors.As(got.err, &e) || got.text() != "a" {
		t.Fatalf("%s: text %q, %v", data, got.text(), got.err)
	}
	return e
}

func TestErrorsOfEveryShape(t *testing.T) {
	tests := []struct {
		data string
		want upstream.Error
		says string
	}{
		{`{"error":{"message":"Rate limit","type":"rate_limit_error","code":429}}`,
			upstream.Error{Type: "rate_limit_error", Code: "429", Message: "Rate limit"}, "upstream error rate_limit_error (429): Rate limit"},
		{`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
			upstream.Error{Type: "overloaded_error", Message: "Overloaded"}, "upstream error overloaded_error: Overloaded"},
		{`{"error":"model crashed"}`, upstream.Error{Message: "model crashed"}, "upstream error: model crashed"},
		{`{"error":{"message":"m","type":null,"code":"context_length_exceeded"}}`,
			upstream.Error{Code: "context_length_exceeded", Message: "m"}, "upstream error context_length_exceeded: m"},
		{`{"error":{"message":"m","type":"invalid","code":"invalid"}}`,
			upstream.Error{Type: "invalid", Code: "invalid", Message: "m"}, "upstream error invalid: m"},
		{`{"object":"error","message":"m","type":"BadRequestError","code":400}`,
			upstream.Error{Type: "BadRequestError", Code: "400", Message: "m"}, "upstream error BadRequestError (400): m"},
		{`{"error":true,"message":"m"}`, upstream.Error{Message: "m"}, "upstream error: m"},
		{`{"error":{"error":{"message":"m","code":5}}}`, upstream.Error{Code: "5", Message: "m"}, "upstream error 5: m"},
		{`{"error":{"detail":"m"}}`, upstream.Error{Message: "m"}, "upstream error: m"},
		{`{"error":{}}`, upstream.Error{}, "upstream error"},
		{`{"error":[1]}`, upstream.Error{}, "upstream error"},
		{`{"error":503}`, upstream.Error{}, "upstream error"},
		{`{"error":{"message":{"text":"no string"},"type":["x"]}}`, upstream.Error{}, "upstream error"},
		{`{"error":{"message":"a\nb\r\n\u0000\u2028c\u001b[31m","type":"with\nnewline","code":"<script>"}}`,
			upstream.Error{Message: "a b    c [31m"}, "upstream error: a b    c [31m"},
	}
	for _, tt := range tests {
		got := failWith(t, tt.data)
		if diff := cmp.Diff(&tt.want, got, cmpopts.IgnoreUnexported(upstream.Error{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.data, diff)
		}
		if got.Error() != tt.says || got.Raw() != tt.data {
			t.Errorf("says %q of %q, want %q of %q", got.Error(), got.Raw(), tt.says, tt.data)
		}
	}
}

// What a reader can see of an error: its text, and its fields in any encoding.
func seen(t *testing.T, e *upstream.Error) string {
	t.Helper()
	encoded, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%v %s", e, encoded)
}

func TestReadersSeeNoAddressAndNoKey(t *testing.T) {
	for _, secret := range []string{
		"10.1.2.3", "10.1.2.3:8000", "fe80::1", "2001:db8::8a2e:370:7334", "[2001:db8::1]:8443", "::1",
		"localhost:11434", "gpu-7:8000", "api.canary.example", "api.canary.example:443", "db.prod.svc.cluster.local",
		"https://10.1.2.3/v1/chat?key=CANARY", "postgres://u:p@db/x", "http://canary/", "admin@canary.example",
		"sk-CANARY", "sk-ant-api03-CANARY_x-y", "sk-proj-CANARY", "sk-****NARY", "org-CANARYcanary", "hf_CANARYcanary", "gsk_CANARY",
		"AKIACANARY123456", "AIzaSyCANARYcanary", "eyJhbGciOi.CANARY.sig", "Q0FOQVJZQ0FOQVJZQ0FOQVJZQ0FOQVJZ0123",
		"/srv/canary/models/m.bin",
	} {
		for _, form := range []string{"%s", "upstream host %s refused", "dial tcp %s: connection refused", "see (%s).", `at "%s"`, "key=%s", "x %s, y"} {
			message, err := json.Marshal(fmt.Sprintf(form, secret))
			if err != nil {
				t.Fatal(err)
			}
			e := failWith(t, fmt.Sprintf(`{"error":{"type":%[1]s,"message":%[1]s,"code":%[1]s}}`, message))
			if got := seen(t, e); strings.Contains(got, secret) || strings.Contains(strings.ToLower(got), "canary") {
				t.Errorf("%s shows in %s", secret, got)
			}
			if !strings.Contains(e.Raw(), string(message)) {
				t.Errorf("%s is not in what is kept for the log", secret)
			}
		}
	}
	for _, message := range []string{
		"Authorization: Bearer CANARY", "bearer CANARY was refused", "api_key=CANARY", `{"api-key": "CANARY"}`, "token: CANARY", "password=CANARY",
		"lookup canary-7 failed", "node canary7 is down", "upstream host canary-a refused",
	} {
		data, err := json.Marshal(map[string]any{"error": message})
		if err != nil {
			t.Fatal(err)
		}
		if got := seen(t, failWith(t, string(data))); strings.Contains(strings.ToLower(got), "canary") {
			t.Errorf("%q shows as %s", message, got)
		}
	}
}

func TestUsefulMessagesStay(t *testing.T) {
	for _, message := range []string{
		"This model's maximum context length is 8192 tokens, however you requested 10000 tokens (9000 in the messages, 1000 in the completion).",
		"Rate limit reached for m-large on tokens per min. Limit: 10000 / min. Try again in 6s.",
		"You exceeded your current quota, please check your plan and billing details.",
		"max_tokens: field required", "server error", "The server had an error while processing your request.", "Überlastet – 后端忙",
	} {
		data, err := json.Marshal(map[string]any{"error": message})
		if err != nil {
			t.Fatal(err)
		}
		if got := failWith(t, string(data)).Message; got != message {
			t.Errorf("%q became %q", message, got)
		}
	}
}

func TestALongMessageIsClipped(t *testing.T) {
	e := failWith(t, `{"error":"`+strings.Repeat("é – ", 100_000)+`"}`)
	if len(e.Message) > 500 || !utf8.ValidString(e.Message) {
		t.Errorf("%d bytes: %q", len(e.Message), e.Message)
	}
	// A key must not come out because the limit cut it in two.
	e = failWith(t, `{"error":"`+strings.Repeat("a ", 195)+`sk-CANARY`+strings.Repeat("x", 2000)+`"}`)
	if strings.Contains(e.Message, "CANARY") {
		t.Errorf("a key shows: %q", e.Message)
	}
}
