package dev_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"rillkeep.dev/rillkeep/cmd/rillkeep/internal/dev"
	"rillkeep.dev/rillkeep/router/web"
	"rillkeep.dev/rillkeep/router/web/webtest"
)

// produced is a text that every node knows, of one-unit characters, and that takes
// longer than the test.
var produced = strings.Repeat("a text that outlives its node, ", 1000)

// pages is what stands for the API of a node whose page is looked at.
func pages(name string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", web.Handler())
	mux.HandleFunc("/v1/streams", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"streams":[]}`) })
	mux.HandleFunc("/v1/cluster", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"self":"%[1]s/x","members":[{"name":"%[1]s/x","node":%[1]q,"state":"active","share":1}]}`, name)
	})
	mux.HandleFunc("/v1/streams/m1", func(w http.ResponseWriter, r *http.Request) {
		pos, err := strconv.Atoi(r.Header.Get("Last-Event-ID"))
		if err != nil {
			at, _, _ := strings.Cut(r.URL.Query().Get("from"), "@")
			pos, _ = strconv.Atoi(at)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		send(w, r, pos)
	})
	return mux
}

// send plays the text from a position on.
func send(w http.ResponseWriter, r *http.Request, pos int) {
	event := func(id int, format string, args ...any) {
		_, _ = fmt.Fprintf(w, "id: %d\ndata: "+format+"\n\n", append([]any{id}, args...)...)
		_ = http.NewResponseController(w).Flush()
	}
	_, _ = io.WriteString(w, "retry: 100\n")
	event(pos, `{"type":"open","streamId":"m1","from":%d,"seq":%[1]d,"durableSeq":0,"ended":false}`, pos)
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	for pos < len(produced) {
		select {
		case <-pace.C:
		case <-r.Context().Done():
			return
		}
		to := min(pos+2, len(produced))
		event(to, `{"type":"chunk","from":%d,"seq":%d,"text":%q}`, pos, to, produced[pos:to])
		pos = to
	}
}

// tab is a page in a browser.
type tab struct {
	testing.TB
	ctx context.Context
}

func (p tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.Fatalf("browser: %v", err)
	}
}

// until waits for a condition of the page.
func (p tab) until(condition string) {
	p.Helper()
	p.do(chromedp.Poll[chromedp.Void](condition, chromedp.WithPollingInterval(20*time.Millisecond), chromedp.WithPollingTimeout(0)))
}

// text returns what is shown, once that is longer than before, and checks that it
// was produced so (S).
func (p tab) text(longerThan int) int {
	p.Helper()
	p.until("document.getElementById('text').textContent.length > " + strconv.Itoa(longerThan))
	got, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("document.getElementById('text').textContent"))
	if err != nil {
		p.Fatal(err)
	}
	if !strings.HasPrefix(produced, got) {
		p.Fatalf("page shows %q", got)
	}
	return len(got)
}

func TestThePageFollowsThroughTheDeathOfEachNode(t *testing.T) {
	t.Parallel()
	c := open(t, 3, "pages")
	p := tab{t, webtest.Open(t)}
	p.do(chromedp.Navigate(c.url("/#m1")))
	shown := p.text(0)
	for _, n := range c.Nodes() {
		button := func(action string) chromedp.Action[chromedp.Void] {
			return chromedp.Click(chromedp.CSS(`#cluster li[data-node="` + n.Name + `"] [data-action="` + action + `"]`))
		}
		p.do(button("kill"))
		c.until(n.Name, dev.Down)
		p.until(`document.querySelector('#cluster li[data-node="` + n.Name + `"]').dataset.process === 'down'`)
		shown = p.text(shown)
		p.do(button("restart"))
		c.until(n.Name, dev.Up)
	}
	p.text(shown)
}
