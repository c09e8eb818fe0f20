package web_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	realnode "rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/web"
)

// testRealNode plays the sample on a real node with a real store: one tab is
// reloaded in the middle, another joins late, and what each shows is a prefix of
// the text whenever one looks, and the text in the end (S).
func testRealNode(t *testing.T, browser context.Context) {
	n, err := realnode.Open(t.Context(), realnode.Config{Listen: "127.0.0.1:0", Data: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("close node: %v", err)
		}
	})
	first := openAt(t, browser, n.URL(), "")
	first.do(chromedp.Click(chromedp.ID("play")))
	first.untilPrefix(100)
	first.do(chromedp.Reload())
	first.untilPrefix(200)
	second := openAt(t, browser, n.URL(), eval[string](first, "location.hash"))
	second.untilPrefix(300)
	first.do(chromedp.Reload())
	for _, p := range []*page{first, second} {
		p.untilStatus("Complete")
		p.untilText(web.SampleText())
		p.check()
	}
	first.do(chromedp.Reload()) // now from the store's point of view
	first.untilStatus("Complete")
	first.untilText(web.SampleText())
}

// untilPrefix waits until the page shows some units, and checks that they are
// the sample's first.
func (p *page) untilPrefix(units int) {
	p.Helper()
	least := strconv.Itoa(units)
	p.until("document.getElementById('text').textContent.length >= " + least)
	if got := p.text(); !strings.HasPrefix(web.SampleText(), got) {
		p.Fatalf("page shows %q, no prefix of the text", got)
	}
}
