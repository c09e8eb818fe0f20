package generate_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/router/generate"
	"rillkeep.dev/rillkeep/router/generate/modeltest"
	"rillkeep.dev/rillkeep/router/upstream"
)

func TestARequestGoesAsItsFormatHasIt(t *testing.T) {
	const request = `{ "model":"m-large", "stream":false, "n":1e2, "x":"<\ud83d>", "stream_options":{"other":1} }`
	for format, want := range map[upstream.Format]struct {
		path, body, auth, apiKey string
	}{
		upstream.OpenAI: {
			"/v1/chat/completions",
			`{"model":"m-large","n":1e2,"stream":true,"stream_options":{"include_usage":true,"other":1},"x":"<\ud83d>"}`, "Bearer " + key, "",
		},
		upstream.Responses: {
			"/v1/responses", `{"model":"m-large","n":1e2,"stream":true,"stream_options":{"other":1},"x":"<\ud83d>"}`, "Bearer " + key, "",
		},
		upstream.Anthropic: {
			"/v1/messages", `{"model":"m-large","n":1e2,"stream":true,"stream_options":{"other":1},"x":"<\ud83d>"}`, "", key,
		},
	} {
		p := modeltest.New(t, modeltest.Answer{Body: sample(t, "openai-usage.sse")})
		c, _ := model(t, p, format, generate.Config{Patience: time.Nanosecond})
		call(t.Context(), c, job(t, c, request))
		got := p.Calls()[0]
		if got.Path != want.path || got.Body != want.body || got.Header.Get("Authorization") != want.auth || got.Header.Get("X-Api-Key") != want.apiKey {
			t.Errorf("%s: %+v", format, got)
		}
		if version := got.Header.Get("Anthropic-Version"); (version != "") != (format == upstream.Anthropic) {
			t.Errorf("%s: anthropic-version %q", format, version)
		}
	}
}

func TestACompletionGoesAsItIs(t *testing.T) {
	p := modeltest.New(t, modeltest.Answer{Body: sample(t, "openai-usage.sse")})
	c, err := generate.New(generate.Config{Upstreams: []generate.Upstream{
		{Name: "claude", Format: upstream.Anthropic, URL: p.URL + "/claude"},
		{Name: "first", Format: upstream.OpenAI, URL: p.URL},
		{Name: "gpu", Format: upstream.OpenAI, URL: p.URL + "/gpu/"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for request, want := range map[string]modeltest.Call{
		"{\n \"model\": \"gpt\", \"stream\": true }": {Path: "/v1/chat/completions", Body: "{\n \"model\": \"gpt\", \"stream\": true }"},
		`{"model":"gpu/a/b","stream":true}`:          {Path: "/gpu/chat/completions", Body: `{"model":"a/b","stream":true}`},
		`{"model":"gpu/","stream":true}`:             {Path: "/v1/chat/completions", Body: `{"model":"gpu/","stream":true}`},
		`{"model":"claude/x","stream":true}`:         {Path: "/v1/chat/completions", Body: `{"model":"claude/x","stream":true}`},
		`{"model":5}`:                                {Path: "/v1/chat/completions", Body: `{"model":5}`},
	} {
		j, err := c.Completion([]byte(request))
		if err != nil {
			t.Fatal(err)
		}
		call(t.Context(), c, j)
		got := p.Calls()[len(p.Calls())-1]
		if got.Path != want.Path || got.Body != want.Body || got.Header.Get("Authorization") != "" {
			t.Errorf("%s: %+v", request, got)
		}
	}
	for _, request := range []string{``, `[]`, `null`, `{"a":`, "{\"a\":\"\xff\"}"} {
		if _, err := c.Completion([]byte(request)); !errors.Is(err, generate.ErrRequest) {
			t.Errorf("%q: %v", request, err)
		}
		if _, err := c.Job("first", []byte(request)); !errors.Is(err, generate.ErrRequest) {
			t.Errorf("%q: %v", request, err)
		}
	}
	if _, err := c.Job("http://evil.example/", []byte(`{}`)); !errors.Is(err, generate.ErrUnknown) {
		t.Errorf("%v", err)
	}
}

func TestEverySampleComesOutAsItsParserHasIt(t *testing.T) {
	files, err := os.ReadDir("../upstream/testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := file.Name()
		if strings.HasSuffix(name, "l") && !strings.HasSuffix(name, "html") || strings.HasSuffix(name, "txt") || file.IsDir() {
			continue // formats that no provider has
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := sample(t, name)
			format := upstream.OpenAI
			switch {
			case strings.HasPrefix(name, "anthropic"):
				format = upstream.Anthropic
			case strings.HasPrefix(name, "responses"):
				format = upstream.Responses
			}
			var want outcome
			for delta, err := range upstream.Deltas(t.Context(), strings.NewReader(string(body)), format, upstream.Options{Summary: &want.res.Summary}) {
				if want.err = err; err == nil {
					want.deltas = append(want.deltas, delta)
				}
			}
			for _, size := range []int{1 << 20, len(body)/5 + 1, 7} {
				if size == 7 && len(body) > 10_000 {
					continue
				}
				p := modeltest.New(t, modeltest.Answer{Body: body, Cuts: modeltest.Every(size, len(body))})
				c, logged := model(t, p, format, generate.Config{Patience: time.Nanosecond})
				var raw copied
				j := job(t, c, "{}")
				j.Copy = &raw
				got := call(t.Context(), c, j)
				if got.text() != want.text() || (got.err == nil) != (want.err == nil) || got.err != nil && got.err.Error() != want.err.Error() {
					t.Errorf("in pieces of %d: %.60q, %v; want %.60q, %v", size, got.text(), got.err, want.text(), want.err)
				}
				if diff := cmp.Diff(want.res.Summary, got.res.Summary); diff != "" {
					t.Errorf("in pieces of %d: summary (-want +got):\n%s", size, diff)
				}
				if said := raw.String(); !strings.HasPrefix(string(body), said) || want.err == nil && said != string(body) {
					t.Errorf("in pieces of %d: the copy of %d bytes has %d", size, len(body), len(said))
				}
				if strings.Contains(logged.String(), "CANARY") || strings.Contains(logged.String(), key) {
					t.Errorf("logged: %s", logged)
				}
			}
		})
	}
}

func TestWhatMayPassIsTriedAgainUntilThereIsText(t *testing.T) {
	good := modeltest.Answer{Body: sample(t, "openai-usage.sse")}
	soon := []string{"Retry-After-Ms", "5"}
	for name, tt := range map[string]struct {
		answers  []http.Handler
		attempts int
		text     string
		failure  func(error) bool
	}{
		"busy":              {[]http.Handler{refusal(429, `{}`, soon...), refusal(503, ``, soon...), good}, 3, "Hello there", nil},
		"busy in seconds":   {[]http.Handler{refusal(429, `{}`, "Retry-After", "0.01"), good}, 2, "Hello there", nil},
		"busy for ever":     {[]http.Handler{refusal(529, `{}`, soon...)}, 4, "", isReported},
		"busy for too long": {[]http.Handler{refusal(429, `{}`, "Retry-After", "31"), good}, 1, "", isReported},
		"busy for an age":   {[]http.Handler{refusal(429, `{}`, "Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"), good}, 1, "", isReported},
		"busy, and final":   {[]http.Handler{refusal(429, `{}`, "X-Should-Retry", "false"), good}, 1, "", isReported},
		"a wrong request":   {[]http.Handler{refusal(400, `{"error":{"message":"no such model"}}`), good}, 1, "", isReported},
		"a wrong key":       {[]http.Handler{refusal(401, `{"error":"Incorrect API key `+key+`"}`), good}, 1, "", isReported},
		"cut before text":   {[]http.Handler{modeltest.Answer{Body: []byte(": hi\n\n"), Ending: modeltest.Cut}, good}, 2, "Hello there", nil},
		"broken off":        {[]http.Handler{http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), good}, 2, "Hello there", nil},
		"overloaded in the stream": {[]http.Handler{
			modeltest.Answer{Body: []byte("data: {\"error\":{\"type\":\"overloaded_error\"}}\n\n")}, good,
		}, 2, "Hello there", nil},
		"a page": {[]http.Handler{modeltest.Answer{Body: sample(t, "page.html"), Header: map[string]string{"Content-Type": "text/html"}}, good}, 1, "", func(err error) bool {
			return errors.Is(err, upstream.ErrMalformed)
		}},
		"cut in the text": {[]http.Handler{modeltest.Answer{Body: sample(t, "openai-cut.sse"), Ending: modeltest.Cut}, good}, 1, "Some of it", func(err error) bool {
			return errors.Is(err, upstream.ErrTruncated)
		}},
		"an error after text": {[]http.Handler{modeltest.Answer{Body: sample(t, "error-a-data-error.sse")}, good}, 1, "Partial", isReported},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := modeltest.New(t, tt.answers...)
			c, logged := model(t, p, upstream.OpenAI, generate.Config{})
			got := ask(t, c)
			if got.text() != tt.text || (got.err == nil) != (tt.failure == nil) || got.err != nil && !tt.failure(got.err) {
				t.Errorf("%q, %v; want %q", got.text(), got.err, tt.text)
			}
			if got.res.Attempts != tt.attempts || len(p.Calls()) != tt.attempts {
				t.Errorf("%d attempts, %d calls; want %d", got.res.Attempts, len(p.Calls()), tt.attempts)
			}
			said := logged.String()
			if got.err != nil {
				said += got.err.Error()
			}
			if strings.Contains(said, key) || strings.Contains(said, "SECRET") {
				t.Errorf("the key is told: %s", said)
			}
		})
	}
}

func TestNothingIsTriedAgainOnceSomethingWasCopied(t *testing.T) {
	p := modeltest.New(t, modeltest.Answer{Body: []byte(": hi\n\n"), Ending: modeltest.Cut}, modeltest.Answer{Body: sample(t, "openai-usage.sse")})
	c, _ := model(t, p, upstream.OpenAI, generate.Config{})
	j, raw := job(t, c, "{}"), copied{}
	j.Copy = &raw
	if got := call(t.Context(), c, j); !errors.Is(got.err, upstream.ErrTruncated) || got.res.Attempts != 1 || raw.String() != ": hi\n\n" || len(raw.heads) != 1 {
		t.Errorf("%v after %d attempts, %q", got.err, got.res.Attempts, raw.String())
	}
}

func TestSilenceEndsACall(t *testing.T) {
	const short = 50 * time.Millisecond
	body := sample(t, "openai-usage.sse")
	for name, tt := range map[string]struct {
		answer modeltest.Answer
		cfg    generate.Config
		want   error
		text   string
	}{
		"before the head":     {modeltest.Answer{Before: patience}, generate.Config{FirstByte: short}, generate.ErrSilent, ""},
		"before the body":     {modeltest.Answer{Ending: modeltest.Stall}, generate.Config{FirstByte: short}, generate.ErrSilent, ""},
		"in the body":         {modeltest.Answer{Body: body[:450], Ending: modeltest.Stall}, generate.Config{Between: short}, generate.ErrSilent, "Hello"},
		"all in all too slow": {modeltest.Answer{Body: body, Cuts: []int{450, 452}, Pause: 40 * short}, generate.Config{Length: short}, generate.ErrSlow, "Hello"},
		"no end of it":        {modeltest.Answer{Body: body}, generate.Config{MaxResponse: 400}, generate.ErrTooLong, ""},
		"after the end":       {modeltest.Answer{Body: body, Ending: modeltest.Stall}, generate.Config{}, nil, "Hello there"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := modeltest.New(t, tt.answer)
			c, _ := model(t, p, upstream.OpenAI, tt.cfg)
			got := ask(t, c)
			if !errors.Is(got.err, tt.want) || got.err == nil && tt.want != nil || got.text() != tt.text || got.res.Attempts != 1 {
				t.Errorf("%q, %v after %d attempts; want %q, %v", got.text(), got.err, got.res.Attempts, tt.text, tt.want)
			}
		})
	}
}

func TestAConsumerThatTakesItsTimeIsNoSilence(t *testing.T) {
	body := sample(t, "openai-usage.sse")
	p := modeltest.New(t, modeltest.Answer{Body: body, Cuts: []int{450, 470}})
	c, _ := model(t, p, upstream.OpenAI, generate.Config{Between: 100 * time.Millisecond})
	var res generate.Result
	text := ""
	for delta, err := range c.Deltas(t.Context(), job(t, c, "{}"), &res) {
		if err != nil {
			t.Error(err)
		}
		text += delta
		<-time.After(300 * time.Millisecond) // a store that is behind
	}
	if text != "Hello there" {
		t.Errorf("%q", text)
	}
}

func TestStoppingEndsTheRequestAtOnce(t *testing.T) {
	stopped := errors.New("stopped")
	stall := modeltest.Answer{Body: sample(t, "openai-usage.sse")[:450], Ending: modeltest.Stall}
	for name, answer := range map[string]http.Handler{
		"in the text": stall, "before the head": modeltest.Answer{Before: patience},
		"while it waits": refusal(429, `{}`, "Retry-After", "20"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := modeltest.New(t, answer)
			c, _ := model(t, p, upstream.OpenAI, generate.Config{})
			ctx, cancel := context.WithCancelCause(t.Context())
			at := make(chan time.Time, 1)
			time.AfterFunc(200*time.Millisecond, func() { at <- time.Now(); cancel(stopped) })
			got := call(ctx, c, job(t, c, "{}"))
			began := <-at
			if got.err != stopped || time.Since(began) > time.Second {
				t.Errorf("%v after %v", got.err, time.Since(began))
			}
			if name == "while it waits" {
				return
			}
			select {
			case left := <-p.Left():
				if left.Sub(began) > time.Second {
					t.Errorf("the request was left after %v", left.Sub(began))
				}
			case <-time.After(patience):
				t.Error("the request is not left")
			}
		})
	}
	t.Run("by the consumer", func(t *testing.T) {
		t.Parallel()
		p := modeltest.New(t, stall)
		c, _ := model(t, p, upstream.OpenAI, generate.Config{})
		for range c.Deltas(t.Context(), job(t, c, "{}"), new(generate.Result)) {
			break
		}
		select {
		case <-p.Left():
		case <-time.After(patience):
			t.Error("the request is not left")
		}
	})
}

func TestARedirectLeadsNowhereElse(t *testing.T) {
	var elsewhere int
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	good := modeltest.Answer{Body: sample(t, "openai-usage.sse")}
	for name, tt := range map[string]struct {
		status int
		target string
		calls  int
		text   string
	}{
		"to another host":           {307, other.URL + "/v1/chat/completions", 1, ""},
		"to another host, as a GET": {302, other.URL, 1, ""},
		"to a GET":                  {303, "/v1/other", 1, ""},
		"on the host":               {308, "/v2/chat/completions", 2, "Hello there"},
	} {
		p := modeltest.New(t, refusal(tt.status, "", "Location", tt.target), good)
		c, _ := model(t, p, upstream.OpenAI, generate.Config{})
		got := ask(t, c)
		if got.text() != tt.text || (got.err == nil) != (tt.text != "") || len(p.Calls()) != tt.calls {
			t.Errorf("%s: %q, %v, %d calls", name, got.text(), got.err, len(p.Calls()))
		}
		if got.err != nil && (strings.Contains(got.err.Error(), other.URL) || !strings.Contains(got.err.Error(), "elsewhere")) {
			t.Errorf("%s: %v", name, got.err)
		}
	}
	if elsewhere > 0 {
		t.Errorf("%d requests went elsewhere", elsewhere)
	}
}

func TestNobodyThereIsSaidWithoutItsAddress(t *testing.T) {
	p := modeltest.New(t, modeltest.Answer{})
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	p.URL = gone.URL
	c, logged := model(t, p, upstream.OpenAI, generate.Config{Patience: time.Millisecond})
	got := ask(t, c)
	if !errors.Is(got.err, generate.ErrUnreached) || got.err.Error() != generate.ErrUnreached.Error() {
		t.Errorf("%v", got.err)
	}
	if !strings.Contains(logged.String(), "refused") || strings.Contains(logged.String(), key) {
		t.Errorf("the log says %s", logged)
	}
}

func TestFingerprintsTellRequestsApart(t *testing.T) {
	p := modeltest.New(t, modeltest.Answer{})
	c, _ := model(t, p, upstream.OpenAI, generate.Config{})
	one := job(t, c, `{"model":"a","messages":[{"content":"x"}]}`).Fingerprint()
	if same := job(t, c, ` {"messages": [ {"content":"x"} ], "model":"a", "stream":false}`).Fingerprint(); same != one {
		t.Error("blanks and order count")
	}
	if other := job(t, c, `{"model":"a","messages":[{"content":"y"}]}`).Fingerprint(); other == one {
		t.Error("text does not count")
	}
	if _, err := json.Marshal(generate.Config{}.Upstreams); err != nil {
		t.Error(err)
	}
}
