package web_test

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"rillkeep.dev/rillkeep/router/web"
	"rillkeep.dev/rillkeep/router/web/webtest"
)

//go:embed testdata/html-in-text.jsonl
var htmlInText []byte

// patience bounds one step in the browser.
const patience = 30 * time.Second

// page is a tab with the page in it.
type page struct {
	testing.TB
	url string
	ctx context.Context

	mu       sync.Mutex // guards below
	mistakes []string   // exceptions, and what the policy forbade
	targets  []string   // of its requests
}

func openPage(tb testing.TB, browser context.Context, n *node, fragment string) *page {
	tb.Helper()
	return openAt(tb, browser, n.URL, fragment)
}

func openAt(tb testing.TB, browser context.Context, url, fragment string) *page {
	tb.Helper()
	p := &page{TB: tb, url: url, ctx: webtest.NewTab(tb, browser)}
	if err := chromedp.Listen(p.ctx, p.hear); err != nil {
		tb.Fatal(err)
	}
	p.do(chromedp.Navigate(url + "/" + fragment))
	return p
}

func (p *page) hear(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.mistakes = append(p.mistakes, e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		if e.Entry.Source != log.EntrySourceNetwork { // refusals and cuts are part of the play
			p.mistakes = append(p.mistakes, e.Entry.Text)
		}
	case *network.EventRequestWillBeSent:
		p.targets = append(p.targets, e.Request.URL)
	}
}

func (p *page) do(steps ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.Fatalf("browser: %v", err)
	}
}

func eval[T any](p *page, script string) T {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		p.Fatalf("browser: %s: %v", script, err)
	}
	return v
}

// until waits for a condition of the page.
func (p *page) until(condition string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	poll := chromedp.Poll[chromedp.Void](condition, chromedp.WithPollingInterval(20*time.Millisecond), chromedp.WithPollingTimeout(0))
	if _, err := chromedp.Run(ctx, poll); err != nil {
		p.Fatalf("page is not to be %s: %v; it says %q, %q, %d units", condition, err, p.says("status"), p.says("link"), len(p.text()))
	}
}

func (p *page) untilText(want string) {
	p.Helper()
	length, _ := json.Marshal(len(utf16.Encode([]rune(want))))
	p.until("document.getElementById('text').textContent.length === " + string(length))
	if got := p.text(); got != want {
		p.Fatalf("page shows %q, want %q", got, want)
	}
}

func (p *page) untilStatus(want string) {
	p.Helper()
	p.until("document.getElementById('status').textContent === '" + want + "'")
}

func (p *page) says(id string) string {
	return eval[string](p, "document.getElementById('"+id+"').textContent")
}

func (p *page) text() string { return p.says("text") }

func (p *page) shows(id string) bool {
	return eval[bool](p, "document.getElementById('"+id+"').checkVisibility()")
}

// check holds at the end of every case: no mistake, and nothing asked of others.
func (p *page) check() {
	p.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, mistake := range p.mistakes {
		p.Errorf("page reports %s", mistake)
	}
	for _, target := range p.targets {
		if !strings.HasPrefix(target, p.url+"/") && !strings.HasPrefix(target, "about:") {
			p.Errorf("page asked for %s", target)
		}
	}
}

func TestPage(t *testing.T) {
	browser := webtest.Open(t)
	for name, test := range map[string]func(*testing.T, context.Context){
		"the sample is shown as it was produced":       testSample,
		"a reload goes on with the same text":          testReload,
		"a second tab shows the same text":             testSecondTab,
		"cut connections lose and double nothing":      testCuts,
		"a stale reader goes on in the durable text":   testStale,
		"a new epoch takes back what it does not have": testEpoch,
		"markup in the text is text":                   testMarkup,
		"a token is asked for and kept to the tab":     testToken,
		"a stream is cancelled":                        testCancel,
		"a stream that is not there is said so":        testUnknown,
		"streams are listed and reached by keyboard":   testList,
		"a long text is painted in blocks":             testLong,
		"a phone shows all of it, in the dark too":     testPhone,
		"a screen reader is told at its own pace":      testAnnouncer,
		"a cluster's members and shares are shown":     testCluster,
		"a stream's node is shown":                     testHome,
		"nodes are killed and started from the page":   testActions,
		"a phone shows the cluster, in the dark too":   testClusterOnAPhone,
		"a node that is alone shows no cluster":        testAlone,
		"a token is asked for and shows the cluster":   testClusterToken,
		"a real node's text is exact in every tab":     testRealNode,
		"a page produces, and reads what it produces":  testProduce,
	} {
		t.Run(name, func(t *testing.T) { test(t, browser) })
	}
}

func testSample(t *testing.T, browser context.Context) {
	p := openPage(t, browser, openNode(t), "")
	p.do(chromedp.Click(chromedp.ID("play")))
	p.untilStatus("Complete")
	p.untilText(web.SampleText())
	units := eval[int](p, "document.getElementById('text').textContent.length")
	for _, figure := range []string{"produced", "durable"} {
		if got := eval[int](p, "Number(document.getElementById('"+figure+"').value)"); got != units {
			t.Errorf("%s is shown as %d, want %d", figure, got, units)
		}
	}
	if got := eval[string](p, "location.hash"); !strings.HasPrefix(got, "#sample-") {
		t.Errorf("address has %q", got)
	}
	if p.shows("cancel") {
		t.Error("an ended stream can be cancelled")
	}
	p.check()
}

func testReload(t *testing.T, browser context.Context) {
	n := openNode(t)
	first, rest := web.SampleText()[:700], web.SampleText()[700:]
	n.push("answer/1", first)
	p := openPage(t, browser, n, "#answer%2F1")
	p.untilText(first)
	p.untilStatus("Streaming")
	for range 3 {
		p.do(chromedp.Reload())
		p.untilText(first)
	}
	n.push("answer/1", rest)
	n.end("answer/1", "complete")
	p.untilStatus("Complete")
	p.untilText(first + rest)
	p.do(chromedp.Reload())
	p.untilStatus("Complete")
	p.untilText(first + rest)
	p.check()
}

func testSecondTab(t *testing.T, browser context.Context) {
	n := openNode(t)
	n.push("s", "one 😀 ")
	n.checkpoint("s")
	first := openPage(t, browser, n, "#s")
	first.untilText("one 😀 ")
	n.push("s", "two")
	second := openPage(t, browser, n, "#s")
	for _, p := range []*page{first, second} {
		p.untilText("one 😀 two")
		p.until("document.getElementById('produced').value === '10' && document.getElementById('durable').value === '7'")
	}
	n.end("s", "complete")
	for _, p := range []*page{first, second} {
		p.untilStatus("Complete")
		p.untilText("one 😀 two")
		p.check()
	}
}

func testCuts(t *testing.T, browser context.Context) {
	n := openNode(t)
	n.set(func(n *node) { n.cut = 6 })
	p := openPage(t, browser, n, "#s")
	text := web.SampleText()[:1000]
	for _, part := range strings.SplitAfter(text, " ") {
		n.push("s", part)
	}
	n.end("s", "complete")
	p.untilStatus("Complete")
	p.untilText(text)
	p.check()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.reads) < 20 {
		t.Errorf("%d connections, want many", len(n.reads))
	}
}

func testStale(t *testing.T, browser context.Context) {
	n := openNode(t)
	n.set(func(n *node) { n.stale = 3 })
	n.push("s", "twenty-one live units")
	n.checkpoint("s")
	n.push("s", " and more")
	p := openPage(t, browser, n, "#s")
	p.untilText("twenty-one live units")
	p.until("document.getElementById('link').textContent.includes('durable')")
	n.push("s", ".")
	n.checkpoint("s")
	p.untilText("twenty-one live units and more.")
	n.end("s", "complete")
	p.untilStatus("Complete")
	p.untilText("twenty-one live units and more.")
	p.check()
	n.mu.Lock()
	defer n.mu.Unlock()
	if asked := strings.Join(n.requests, "\n"); !strings.Contains(asked, "/v1/streams/s?from=21%401&plane=durable") {
		t.Errorf("the durable text was not joined at the offset held:\n%s", asked)
	}
}

func testEpoch(t *testing.T, browser context.Context) {
	n := openNode(t)
	n.push("s", "kept; ")
	n.checkpoint("s")
	n.push("s", "lost with its owner")
	p := openPage(t, browser, n, "#s")
	p.untilText("kept; lost with its owner")
	n.lose("s", len("kept; "))
	n.push("s", "made anew")
	n.end("s", "complete")
	p.untilStatus("Complete")
	p.untilText("kept; made anew")
	p.check()
}

func testMarkup(t *testing.T, browser context.Context) {
	n := openNode(t)
	p := openPage(t, browser, n, "#%3Cimg%20src=x%20onerror=%22window.__x=6%22%3E")
	id := `<img src=x onerror="window.__x=6">`
	var text strings.Builder
	for lines := bufio.NewScanner(bytes.NewReader(htmlInText)); lines.Scan(); {
		var delta struct{ Text string }
		if err := json.Unmarshal(lines.Bytes(), &delta); err != nil {
			t.Fatal(err)
		}
		n.push(id, delta.Text)
		text.WriteString(delta.Text)
	}
	n.end(id, "complete")
	p.untilStatus("Complete")
	p.untilText(text.String())
	if got := eval[string](p, "typeof window.__x"); got != "undefined" {
		t.Errorf("text ran as script: window.__x is %s", got)
	}
	if got := eval[int](p, "document.querySelectorAll('#text :not(div), #stream-id *, #live img, #recent img').length"); got != 0 {
		t.Errorf("text became %d elements", got)
	}
	if got := p.says("stream-id"); got != id {
		t.Errorf("id is shown as %q", got)
	}
	p.check()
}

func testToken(t *testing.T, browser context.Context) {
	const secret = "SECRET-CANARY-123"
	n := openNode(t)
	n.set(func(n *node) { n.token = secret })
	n.push("s", "for some eyes only")
	p := openPage(t, browser, n, "#s")
	p.do(chromedp.WaitVisible(chromedp.ID("token-form")))
	if p.text() != "" {
		t.Errorf("shows %q without a token", p.text())
	}
	p.do(chromedp.SendKeys(chromedp.ID("token"), "wrong\r"))
	p.until("document.getElementById('notice').textContent.includes('did not take')")
	p.do(chromedp.SendKeys(chromedp.ID("token"), secret+"\r"))
	p.untilText("for some eyes only")
	p.do(chromedp.Reload())
	p.untilText("for some eyes only")
	if p.shows("token-form") {
		t.Error("token is asked for again")
	}
	if got := eval[string](p, "document.documentElement.outerHTML + location.href + document.title"); strings.Contains(got, secret) {
		t.Error("token shows in the page or its address")
	}
	if got := p.says("curl"); !strings.Contains(got, "$RILLKEEP_TOKEN") {
		t.Errorf("command is %q", got)
	}
	other := openPage(t, browser, n, "#s")
	other.do(chromedp.WaitVisible(chromedp.ID("token-form")))
	p.do(chromedp.Click(chromedp.ID("forget")))
	p.do(chromedp.WaitVisible(chromedp.ID("token-form")))
	p.check()
}

func testCancel(t *testing.T, browser context.Context) {
	n := openNode(t)
	n.push("s", "stop me")
	p := openPage(t, browser, n, "#s")
	p.untilStatus("Streaming")
	p.do(chromedp.Click(chromedp.ID("cancel")))
	p.untilStatus("Cancelled")
	p.untilText("stop me")
	p.check()
}

func testUnknown(t *testing.T, browser context.Context) {
	n := openNode(t)
	p := openPage(t, browser, n, "#later")
	p.until("document.getElementById('link').textContent === 'There is no such stream. Trying again…'")
	n.push("later", "here I am")
	p.untilText("here I am")
	p.check()
}

func testList(t *testing.T, browser context.Context) {
	n := openNode(t)
	n.push("alive", "text")
	n.push("gone", "text of old")
	n.end("gone", "complete")
	p := openPage(t, browser, n, "")
	p.until("document.querySelector('#recent a') && document.querySelector('#live a')")
	if got := p.says("live"); got != "alive0 · Streaming" {
		t.Errorf("live list says %q", got)
	}
	p.do(chromedp.Focus(chromedp.CSS("#recent a")), chromedp.KeyEvent("\r"))
	p.untilText("text of old")
	if got := eval[string](p, "document.querySelector('[aria-current]').textContent"); got != "gone11 · Complete" {
		t.Errorf("marked is %q", got)
	}
	p.do(chromedp.SendKeys(chromedp.ID("follow-id"), "alive\r"))
	p.untilText("text")
	p.do(chromedp.NavigateBack())
	p.untilText("text of old")
	p.check()
}

func testLong(t *testing.T, browser context.Context) {
	n := openNode(t)
	line := strings.Repeat("word ", 30) + "\n"
	n.push("s", strings.Repeat(line, 60))
	p := openPage(t, browser, n, "#s")
	p.untilText(strings.Repeat(line, 60))
	p.until("document.getElementById('text').children.length >= 4")
	p.until("(({scrollHeight, scrollTop, clientHeight}) => scrollHeight - scrollTop - clientHeight < 2)(document.getElementById('text'))")
	// Who has scrolled up to read is left there.
	eval[int](p, "document.getElementById('text').scrollTop = 0")
	n.push("s", line)
	p.untilText(strings.Repeat(line, 61))
	if got := eval[int](p, "document.getElementById('text').scrollTop"); got != 0 {
		t.Errorf("scrolled to %d", got)
	}
	p.check()
}

func testPhone(t *testing.T, browser context.Context) {
	n := openNode(t)
	id := strings.Repeat("long-name-", 20)
	n.push(id, strings.Repeat("unbroken", 100)+" شيء "+strings.Repeat("=", 300))
	p := openPage(t, browser, n, "#"+id)
	p.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile))
	p.until("document.getElementById('text').textContent.length > 1000 && document.querySelector('#live a')")
	if got := eval[int](p, "document.documentElement.scrollWidth"); got > 360 {
		t.Errorf("page is %d wide", got)
	}
	p.do(chromedp.WaitVisible(chromedp.ID("cancel")), chromedp.WaitVisible(chromedp.ID("copy")))
	paper := "getComputedStyle(document.body).backgroundColor"
	light := eval[string](p, paper)
	p.darken()
	if got := eval[string](p, paper); got == light {
		t.Errorf("page is %s in the dark too", got)
	}
	p.check()
}

// darken makes the page one of who prefers the dark.
func (p *page) darken() {
	p.Helper()
	dark := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}}
	if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, dark); err != nil {
		p.Fatal(err)
	}
}

func testAnnouncer(t *testing.T, browser context.Context) {
	n := openNode(t)
	n.push("s", "An old sentence. ")
	p := openPage(t, browser, n, "#s")
	p.until("document.getElementById('announcer').textContent.startsWith('Streaming')")
	eval[int](p, `window.said = [];
		new MutationObserver(() => said.push(document.getElementById('announcer').textContent))
			.observe(document.getElementById('announcer'), { childList: true });
		0`)
	for range 40 {
		n.push("s", "word ")
	}
	n.push("s", "and stop. ")
	p.until("window.said.length > 0")
	n.push("s", "Last words")
	n.end("s", "complete")
	p.untilStatus("Complete")
	p.until("window.said.at(-1).includes('Complete')")
	said := eval[[]string](p, "window.said")
	if len(said) != 2 || !strings.HasSuffix(said[0], "word and stop.") || !strings.HasPrefix(said[1], "Last words Complete.") {
		t.Errorf("said %q", said)
	}
	if strings.Contains(said[0], "old") {
		t.Error("what was there before is read out")
	}
	p.check()
}
