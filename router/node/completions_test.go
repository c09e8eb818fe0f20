package node_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/auth"
	"rillkeep.dev/rillkeep/router/generate/modeltest"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/upstream"
)

const (
	completionsPath = "/v1/chat/completions"
	streamIDHeader  = "X-Rillkeep-Stream-Id"
	aCompletion     = `{"model":"m-large","messages":[],"stream":true}`
)

// completes asks for a chat completion, which lives on as stream id; "" lets the node
// name it.
func (r *running) completes(id, body string, header ...string) answer {
	r.tb.Helper()
	if id != "" {
		header = append(header, streamIDHeader, id)
	}
	return r.do(http.MethodPost, completionsPath, body, header...)
}

func TestACompletionIsTheProvidersByteForByteFromEveryNode(t *testing.T) {
	t.Parallel()
	var answers []http.Handler
	files := []string{
		"openai-usage.sse", "openai-tools.sse", "openai-reasoning.sse", "openai-halves.sse", "line-ends.sse", "bom.sse",
		"comments.sse", "fields.sse", "controls.sse", "content-array.sse", "wrapped-keepalive.sse", "error-a-data-error.sse", "done.sse",
	}
	for _, f := range files {
		body := response(t, f)
		a := modeltest.Answer{Body: body, Cuts: modeltest.Every(len(body)/4+1, len(body)), Pause: time.Millisecond}
		answers = append(answers, a, a)
	}
	nodes := openCluster(t, 2, calling(modeltest.New(t, answers...)))
	for i, f := range files {
		body := response(t, f)
		text := ""
		for delta := range upstream.Deltas(t.Context(), bytes.NewReader(body), upstream.OpenAI, upstream.Options{}) {
			text += delta
		}
		for j, n := range nodes {
			id := fmt.Sprintf("c%d-%d", i, j)
			a := n.completes(id, aCompletion)
			if a.status != 200 || a.body != string(body) || a.header.Get("Content-Type") != "text/event-stream" || a.header.Get(streamIDHeader) != id {
				t.Errorf("%s: %d %v, %d of %d bytes", f, a.status, a.header, len(a.body), len(body))
			}
			snap := nodes[1-j].awaitEnd(id)
			if ended(t, snap); f != "openai-halves.sse" && f != "controls.sse" && snap.Text != text {
				t.Errorf("%s: %q, want %q", f, snap.Text, text)
			}
		}
	}
	a := nodes[0].completes("", aCompletion)
	if id := a.header.Get(streamIDHeader); !strings.HasPrefix(id, "completion-") || nodes[1].awaitEnd(id).Text != "Quick answer" {
		t.Errorf("%d %v", a.status, a.header)
	}
}

func TestACompletionWithoutAStreamIsTheProvidersJSON(t *testing.T) {
	t.Parallel()
	body := response(t, "whole-completion.json")
	p := modeltest.New(t, modeltest.Answer{Body: body, Header: map[string]string{"Content-Type": "application/json", "X-Request-Id": "req-1"}})
	n := openNode(t, calling(p))
	const request = "{\n  \"model\": \"openai/m-large\", \"stream\": false }"
	a := n.completes("chat%2F1%20%C3%BC", request)
	if a.status != 200 || a.body != string(body) || a.header.Get("Content-Type") != "application/json" || a.header.Get("X-Request-Id") != "req-1" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	if snap := n.awaitEnd("chat/1 ü"); ended(t, snap) != plane.StatusComplete || snap.Text != "Whole answer." {
		t.Errorf("%+v", snap)
	}
	again := n.completes("chat%2F1%20%C3%BC", request)
	wantError(t, "again", again, http.StatusConflict, "exists")
	if again.header.Get("X-Should-Retry") != "false" {
		t.Errorf("%v", again.header)
	}
	if calls := p.Calls(); len(calls) != 1 || calls[0].Body != `{"model":"m-large","stream":false}` {
		t.Errorf("%+v", calls)
	}
	wantError(t, "a bad id", n.completes("%zz", aCompletion), 400, "bad_request")
	wantError(t, "a bad body", n.completes("x", "[]"), 400, "bad_request")
	wantError(t, "no upstream", openNode(t, node.Config{}).completes("x", aCompletion), 501, "unsupported")
}

// begins asks for a chat completion and returns its response once there is some of it.
func (r *running) begins(id string) *http.Response {
	r.tb.Helper()
	req, err := http.NewRequestWithContext(r.tb.Context(), http.MethodPost, r.URL()+completionsPath, strings.NewReader(aCompletion))
	if err != nil {
		r.tb.Fatal(err)
	}
	req.Header.Set(streamIDHeader, id)
	resp, err := r.http.Do(req)
	if err != nil {
		r.tb.Fatal(err)
	}
	r.tb.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestACompletionOutlivesItsClient(t *testing.T) {
	t.Parallel()
	answer, release := halting(t)
	nodes := openCluster(t, 2, calling(modeltest.New(t, answer)))
	for i, n := range nodes {
		resp := n.begins(fmt.Sprint("c", i))
		if _, err := resp.Body.Read(make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	nodes[0].awaitText("c0", "Hello")
	release()
	for _, id := range []string{"c0", "c1"} {
		if snap := nodes[1].awaitEnd(id); ended(t, snap) != plane.StatusComplete || snap.Text != "Hello there" {
			t.Errorf("%+v", snap)
		}
	}
}

func TestASlowClientOfACompletionCostsItself(t *testing.T) {
	t.Parallel()
	var body strings.Builder
	for range 10_000 {
		body.WriteString(`data: {"choices":[{"index":0,"delta":{"content":"0123456789"},"padding":"` + strings.Repeat("x", 2000) + `"}]}` + "\n\n")
	}
	body.WriteString("data: [DONE]\n\n")
	logged := new(record)
	cfg := calling(modeltest.New(t, modeltest.Answer{Body: []byte(body.String())}))
	cfg.Logger, cfg.Limits = logged.logger(), router.Limits{ResponseBytes: 64 << 10}
	n := openNode(t, cfg)
	resp := n.begins("slow")
	if snap := n.awaitEnd("slow"); ended(t, snap) != plane.StatusComplete || snap.Seq != 100_000 {
		t.Errorf("%s, %d", snap.Status, snap.Seq)
	}
	var got bytes.Buffer
	if _, err := got.ReadFrom(resp.Body); err == nil || !strings.HasPrefix(body.String(), got.String()) {
		t.Errorf("%d of %d bytes, %v", got.Len(), body.Len(), err)
	}
	await(t, "it is logged", func() bool { return strings.Contains(logged.String(), "too slow") })
}

func TestARefusedCompletionSaysWhyAndNoMore(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer http.Handler
		status int
		says   string
	}{
		"a wrong request": {modeltest.Answer{Status: 400, Body: []byte(`{"error":{"message":"no such parameter"}}`)}, 400, "no such parameter"},
		"too busy":        {modeltest.Answer{Status: 429, Header: map[string]string{"Retry-After": "40"}}, 429, "429"},
		"a wrong key":     {modeltest.Answer{Status: 401, Body: []byte(`{"error":"key ` + upstreamKey + `"}`)}, 502, "401"},
		"broken":          {modeltest.Answer{Status: 500, Header: map[string]string{"X-Should-Retry": "false"}, Body: []byte("at 10.1.2.3:8000")}, 502, "500"},
		"a page":          {modeltest.Answer{Header: map[string]string{"Content-Type": "text/html"}, Body: response(t, "page.html")}, 502, "no stream"},
		"a redirect":      {modeltest.Answer{Status: 307, Header: map[string]string{"Location": "http://10.1.2.3/"}}, 502, "elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := openNode(t, calling(modeltest.New(t, tt.answer)))
			a := n.completes("c", aCompletion)
			wantError(t, name, a, tt.status, "upstream")
			if !strings.Contains(a.body, tt.says) || strings.Contains(a.body, "SECRETKEY") || strings.Contains(a.body, "10.1.2.3") || strings.Contains(a.body, "html>") {
				t.Errorf("%s", a.body)
			}
			if a.header.Get("X-Should-Retry") != "false" || (a.header.Get("Retry-After") != "") != (tt.status == 429) {
				t.Errorf("%v", a.header)
			}
			if snap := n.awaitEnd("c"); snap.Status != plane.StatusError || !strings.Contains(a.body, snap.Error) {
				t.Errorf("%+v", snap)
			}
		})
	}
}

func TestHalfACompletionDoesNotLookWhole(t *testing.T) {
	t.Parallel()
	cut := modeltest.Answer{Body: response(t, "openai-cut.sse"), Ending: modeltest.Cut}
	nodes := openCluster(t, 2, calling(modeltest.New(t, cut)))
	for i, n := range nodes {
		id := fmt.Sprint("c", i)
		resp := n.begins(id)
		var got bytes.Buffer
		if _, err := got.ReadFrom(resp.Body); err == nil || resp.StatusCode != 200 || !bytes.Equal(got.Bytes(), cut.Body) {
			t.Errorf("%d %s, %v", resp.StatusCode, &got, err)
		}
		if snap := nodes[1-i].awaitEnd(id); snap.Status != plane.StatusInterrupted || snap.Text != "Some of it" {
			t.Errorf("%+v", snap)
		}
	}
}

func TestACompletionNeedsATokenForItsStreamThatGoesNoFurther(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	p := modeltest.New(t, modeltest.Answer{Body: response(t, "openai-usage.sse")})
	cfg := calling(p)
	cfg.Keys = k.Keys
	n := openNode(t, cfg)
	token := k.token(t, auth.Claims{Ops: []auth.Op{auth.Write, auth.Read}, Streams: []string{"A/*"}})
	reader := k.token(t, auth.Claims{Ops: []auth.Op{auth.Read}, Streams: []string{"A/*"}})
	bearer := []string{"Authorization", "Bearer " + token}
	wantError(t, "no token", n.completes("A%2F1", aCompletion), 401, "unauthorized")
	wantError(t, "another's", n.completes("B%2F1", aCompletion, bearer...), 403, "forbidden")
	wantError(t, "any", n.completes("", aCompletion, bearer...), 403, "forbidden")
	wantError(t, "a reader", n.completes("A%2F1", aCompletion, "Authorization", "Bearer "+reader), 403, "forbidden")
	if len(p.Calls()) > 0 {
		t.Error("a model was called")
	}
	if a := n.completes("A%2F1", aCompletion, append(bearer, "Cookie", "a=b")...); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	for name, values := range p.Calls()[0].Header {
		if said := strings.Join(values, " "); strings.Contains(said, token) || name == "Cookie" || strings.HasPrefix(name, "X-Rillkeep") {
			t.Errorf("%s: %s went to the provider", name, said)
		}
	}
}
