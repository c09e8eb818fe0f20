package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/generate"
	"rillkeep.dev/rillkeep/router/generate/modeltest"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/upstream"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

const upstreamKey = "sk-SECRETKEY-0123456789"

// calling is a node's configuration with one upstream of each format, all of them the
// provider.
func calling(p *modeltest.Provider) node.Config {
	var cfg node.Config
	for _, f := range []upstream.Format{upstream.OpenAI, upstream.Responses, upstream.Anthropic} {
		cfg.Generate.Upstreams = append(cfg.Generate.Upstreams, generate.Upstream{Name: string(f), Format: f, URL: p.URL, Key: upstreamKey})
	}
	return cfg
}

// response is a recorded response of a provider.
func response(tb testing.TB, name string) []byte {
	tb.Helper()
	data, err := os.ReadFile("../upstream/testdata/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// halting is an answer that says "Hello" and no more until it is let.
func halting(tb testing.TB) (modeltest.Answer, func()) {
	wait := make(chan struct{})
	return modeltest.Answer{Body: response(tb, "openai-usage.sse"), Cuts: []int{450}, Wait: wait}, sync.OnceFunc(func() { close(wait) })
}

const aRequest = `{"upstream":"openai","request":{"model":"m-large","messages":[]}}`

// generate begins a generation.
func (r *running) generate(id, body string) answer {
	r.tb.Helper()
	return r.do(http.MethodPost, path(id, "generate"), body, "Content-Type", "application/json")
}

// awaitText waits until a stream has a text.
func (r *running) awaitText(id, text string) {
	r.tb.Helper()
	await(r.tb, id+" has "+text, func() bool { return r.snapshot(id).Text == text })
}

// awaitEnd waits until a stream has ended.
func (r *running) awaitEnd(id string) wire.Snapshot {
	r.tb.Helper()
	var snap wire.Snapshot
	await(r.tb, id+" has ended", func() bool { snap = r.snapshot(id); return snap.Status.Ended() })
	return snap
}

func TestAGenerationGoesOnWithoutWhoAskedForIt(t *testing.T) {
	t.Parallel()
	p := modeltest.New(t, modeltest.Answer{Body: response(t, "openai-usage.sse"), Cuts: modeltest.Every(40, 1200), Pause: 10 * time.Millisecond})
	onEachStore(t, calling(p), func(t *testing.T, n *running) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		a := n.generate("m1", `{"upstream":"openai","request":{"model":"m-large"},"producer":"app","meta":{"chat":17}}`)
		g := decode[wire.Generated](t, a)
		if a.status != http.StatusCreated || g.StreamID != "m1" || g.Status != plane.StatusStreaming || g.Generation.Upstream != "openai" {
			t.Fatalf("%d %s", a.status, a.body)
		}
		n.http.CloseIdleConnections() // whoever asked has left
		r, err := n.join(ctx, "m1", "")
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		r.into = &got
		if err := r.rest(); err != nil || got.String() != "Hello there" || r.end.Status != plane.StatusComplete {
			t.Errorf("%q, %+v, %v", got.String(), r.end, err)
		}
		snap := n.awaitEnd("m1")
		if ended(t, snap) != plane.StatusComplete || snap.Producer != "app" {
			t.Errorf("%+v", snap)
		}
		var meta struct {
			Chat       int
			Generation wire.Generation
		}
		if err := json.Unmarshal(snap.Meta, &meta); err != nil || meta.Chat != 17 || meta.Generation.Request != g.Generation.Request {
			t.Errorf("meta %s, %v", snap.Meta, err)
		}
		if meta.Generation.Model != "m-large" || meta.Generation.FinishReason != "stop" || !bytes.Contains(meta.Generation.Usage, []byte("total_tokens")) {
			t.Errorf("meta %s", snap.Meta)
		}
		again := n.generate("m1", `{ "request": {"model": "m-large"}, "upstream": "openai" }`)
		if g := decode[wire.Generated](t, again); again.status != http.StatusOK || g.Status != plane.StatusComplete || g.Seq != 11 {
			t.Errorf("again: %d %s", again.status, again.body)
		}
		wantError(t, "another request", n.generate("m1", `{"upstream":"openai","request":{"model":"m-small"}}`), http.StatusConflict, "exists")
		wantError(t, "another upstream", n.generate("m1", `{"upstream":"anthropic","request":{"model":"m-large"}}`), http.StatusConflict, "exists")
		n.whole("mine", "text")
		wantError(t, "a producer's stream", n.generate("mine", aRequest), http.StatusConflict, "exists")
		n.open("live")
		if a := n.generate("live", aRequest); a.status != http.StatusConflict {
			t.Errorf("a producer's live stream: %d %s", a.status, a.body)
		}
	})
}

func TestAGenerationEndsAsItsResponseDoes(t *testing.T) {
	t.Parallel()
	page := modeltest.Answer{Body: response(t, "page.html"), Header: map[string]string{"Content-Type": "text/html"}}
	for name, tt := range map[string]struct {
		upstream upstream.Format
		answer   http.Handler
		status   plane.Status
		text     string
		says     string
	}{
		"a message":            {upstream.Anthropic, modeltest.Answer{Body: response(t, "anthropic-text.sse")}, plane.StatusComplete, "Hello!", ""},
		"a response":           {upstream.Responses, modeltest.Answer{Body: response(t, "responses-text.sse")}, plane.StatusComplete, "Hello there", ""},
		"halves":               {upstream.OpenAI, modeltest.Answer{Body: response(t, "openai-halves.sse")}, plane.StatusComplete, "Hi 😀! 👍", ""},
		"NUL":                  {upstream.OpenAI, modeltest.Answer{Body: []byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\\u0000b\"}}]}\n\ndata: [DONE]\n\n")}, plane.StatusComplete, "a\uFFFDb", ""},
		"cut":                  {upstream.OpenAI, modeltest.Answer{Body: response(t, "openai-cut.sse"), Ending: modeltest.Cut}, plane.StatusInterrupted, "Some of it", ""},
		"an error in its text": {upstream.OpenAI, modeltest.Answer{Body: response(t, "error-f-error-with-choices.sse")}, plane.StatusError, "Partial", "upstream error"},
		"a failed response":    {upstream.Responses, modeltest.Answer{Body: response(t, "responses-failed.sse")}, plane.StatusError, "Partial", "[key]"},
		"a page":               {upstream.OpenAI, page, plane.StatusError, "", "HTML page"},
		"a wrong key": {upstream.OpenAI, modeltest.Answer{Status: 401, Body: []byte(`{"error":{"message":"Incorrect API key ` + upstreamKey + ` at 10.1.2.3:8000"}}`)},
			plane.StatusError, "", "401"},
		"torn UTF-8": {upstream.OpenAI, modeltest.Answer{Body: []byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\xe6\xbc\"}}]}\n\ndata: [DONE]\n\n"), Cuts: []int{42}},
			plane.StatusComplete, "a\uFFFD", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			logged := new(record)
			p := modeltest.New(t, tt.answer)
			cfg := calling(p)
			cfg.Logger = logged.logger()
			n := openNode(t, cfg)
			if a := n.generate("m", fmt.Sprintf(`{"upstream":%q,"request":{}}`, tt.upstream)); a.status != http.StatusCreated {
				t.Fatalf("%d %s", a.status, a.body)
			}
			snap := n.awaitEnd("m")
			if snap.Status != tt.status || snap.Text != tt.text || !strings.Contains(snap.Error, tt.says) || (snap.Error == "") != (tt.says == "") {
				t.Errorf("%s, %q, %q", snap.Status, snap.Text, snap.Error)
			}
			again := n.generate("m", fmt.Sprintf(`{"upstream":%q,"request":{}}`, tt.upstream))
			if g := decode[wire.Generated](t, again); again.status != 200 || g.Status != tt.status || g.Error != snap.Error {
				t.Errorf("again: %d %s", again.status, again.body)
			}
			await(t, "it is logged", func() bool { return strings.Contains(logged.String(), "generation ended") })
			for _, secret := range []string{"SECRETKEY", "CANARY", "10.1.2.3"} {
				if said := snap.Error + string(snap.Meta) + logged.String(); strings.Contains(said, secret) {
					t.Errorf("%s is told: %s", secret, said)
				}
			}
		})
	}
}

func TestAskedTwiceOnAllNodesAtOnceOneGenerationRuns(t *testing.T) {
	t.Parallel()
	answer, release := halting(t)
	p := modeltest.New(t, answer)
	nodes := openCluster(t, 3, calling(p))
	const streams, asks = 10, 2
	var asked sync.WaitGroup
	answers := make([][]attempt, streams)
	for i := range streams {
		answers[i] = make([]attempt, len(nodes)*asks)
		for j := range answers[i] {
			asked.Go(func() {
				a, err := nodes[j%len(nodes)].try(t.Context(), http.MethodPost, path(fmt.Sprint("m", i), "generate"), aRequest)
				answers[i][j] = attempt{a, err}
			})
		}
	}
	asked.Wait()
	release()
	for i, of := range answers {
		created := 0
		for _, a := range of {
			if a.err != nil || a.status != 200 && a.status != 201 {
				t.Fatalf("m%d: %d %s, %v", i, a.status, a.body, a.err)
			}
			if a.status == 201 {
				created++
			}
			if g := decode[wire.Generated](t, a.answer); g.StreamID != fmt.Sprint("m", i) || g.Epoch != 1 {
				t.Errorf("m%d: %s", i, a.body)
			}
		}
		if created != 1 {
			t.Errorf("m%d: %d were the first", i, created)
		}
		if snap := nodes[i%3].awaitEnd(fmt.Sprint("m", i)); snap.Text != "Hello there" || snap.Status != plane.StatusComplete {
			t.Errorf("%+v", snap)
		}
	}
	if calls := len(p.Calls()); calls != streams {
		t.Errorf("%d calls for %d streams", calls, streams)
	}
}

type attempt struct {
	answer
	err error
}

func TestACancelFromAnyNodeEndsTheRequestWithinASecond(t *testing.T) {
	t.Parallel()
	answer, release := halting(t)
	defer release()
	p := modeltest.New(t, answer)
	nodes := openCluster(t, 3, calling(p))
	for i := range 3 {
		id := fmt.Sprint("m", i)
		nodes[i].generate(id, aRequest)
		nodes[i].awaitText(id, "Hello")
		began := time.Now()
		if _, err := nodes[(i+1)%3].client.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		select {
		case left := <-p.Left():
			if left.Sub(began) > time.Second {
				t.Errorf("the request went on for %v", left.Sub(began))
			}
		case <-time.After(patience):
			t.Fatal("the request goes on")
		}
		if snap := nodes[(i+2)%3].awaitEnd(id); ended(t, snap) != plane.StatusCancelled || snap.Text != "Hello" {
			t.Errorf("%+v", snap)
		}
	}
}

func TestADrainLetsGenerationsEnd(t *testing.T) {
	t.Parallel()
	answer, release := halting(t)
	p := modeltest.New(t, answer)
	nodes := openCluster(t, 2, calling(p))
	id := ofNode(nodes[0], "generated", func(id string) { nodes[0].generate(id, aRequest) })
	nodes[0].awaitText(id, "Hello")
	other := ofNode(nodes[0], "opened", nodes[0].open)
	nodes[0].push(other, 0, "moves")

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := nodes[1].join(ctx, id, "")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	r.into = &got
	drained := make(chan error, 1)
	go func() { drained <- nodes[0].drain() }()
	await(t, "the other stream has moved", func() bool { return strings.HasPrefix(nodes[1].snapshot(other).Host, "n2/") })
	if snap := nodes[1].snapshot(id); snap.Status != plane.StatusStreaming {
		t.Errorf("the generation has ended: %+v", snap)
	}
	release()
	if err := r.rest(); err != nil || got.String() != "Hello there" || r.end.Status != plane.StatusComplete {
		t.Errorf("%q, %+v, %v", got.String(), r.end, err)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	if snap := nodes[1].snapshot(id); ended(t, snap) != plane.StatusComplete {
		t.Errorf("%+v", snap)
	}
}

// ofNode makes streams until one is with the node.
func ofNode(n *running, what string, make func(id string)) string {
	n.tb.Helper()
	for i := range 1000 {
		id := fmt.Sprintf("%s %d", what, i)
		make(id)
		if strings.HasPrefix(n.snapshot(id).Host, n.cfg.Name+"/") {
			return id
		}
	}
	n.tb.Fatal("no stream is with the node")
	return ""
}

func TestAGenerationThatOutlastsADrainIsInterrupted(t *testing.T) {
	t.Parallel()
	answer, release := halting(t)
	defer release()
	p := modeltest.New(t, answer)
	cfg := calling(p)
	cfg.Database = pgtest.URL(t)
	n := openNode(t, cfg)
	n.generate("m1", aRequest)
	n.awaitText("m1", "Hello")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := n.Drain(ctx); err != nil {
		t.Error(err)
	}
	select {
	case <-p.Left():
	case <-time.After(patience):
		t.Error("the request goes on")
	}
	cfg.Name = "n2"
	if snap := openNode(t, cfg).snapshot("m1"); ended(t, snap) != plane.StatusInterrupted || snap.Text != "Hello" {
		t.Errorf("%+v", snap)
	}
}

func TestWhatIsNoGenerationIsRefused(t *testing.T) {
	t.Parallel()
	answer, release := halting(t)
	defer release()
	p := modeltest.New(t, answer)
	cfg := calling(p)
	cfg.Limits = router.Limits{Generations: 1, GenerateBytes: 1000}
	n := openNode(t, cfg)
	for name, tt := range map[string]struct {
		body   string
		status int
		code   string
	}{
		"no upstream":            {`{"request":{}}`, 400, "bad_request"},
		"a URL for an upstream":  {`{"upstream":"http://169.254.169.254/","request":{}}`, 400, "bad_request"},
		"a URL beside it":        {`{"upstream":"openai","url":"http://evil.example/","request":{}}`, 400, "bad_request"},
		"no request":             {`{"upstream":"openai"}`, 400, "bad_request"},
		"a list for a request":   {`{"upstream":"openai","request":[]}`, 400, "bad_request"},
		"a meta of another kind": {`{"upstream":"openai","request":{},"meta":[1]}`, 400, "bad_request"},
		"a meta of its own":      {`{"upstream":"openai","request":{},"meta":{"generation":1}}`, 400, "bad_request"},
		"too much":               {`{"upstream":"openai","request":{"x":"` + strings.Repeat("x", 1000) + `"}}`, 413, "too_large"},
	} {
		wantError(t, name, n.generate("m", tt.body), tt.status, tt.code)
	}
	n.generate("m1", aRequest)
	a := n.generate("m2", aRequest)
	wantError(t, "one too many", a, http.StatusServiceUnavailable, "unavailable")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if a := n.generate("m1", aRequest); a.status != 200 {
		t.Errorf("the one that runs: %d %s", a.status, a.body)
	}
	bare := openNode(t, node.Config{})
	wantError(t, "without upstreams", bare.generate("m", aRequest), http.StatusNotImplemented, "unsupported")
}
