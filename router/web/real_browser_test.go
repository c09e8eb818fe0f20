package web_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	realnode "rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/web"
)

// testRealNode plays the sample on a real node with a real store: one tab is
// reloaded in the middle, another joins late, and what each shows is a prefix of
// the text whenever one looks, and the text in the end (S).
func testRealNode(t *testing.T, browser context.Context) {
	n := openRealNode(t)
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

func openRealNode(tb testing.TB) *realnode.Node {
	tb.Helper()
	n, err := realnode.Open(tb.Context(), realnode.Config{Listen: "127.0.0.1:0", Data: tb.TempDir()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := n.Close(); err != nil {
			tb.Errorf("close node: %v", err)
		}
	})
	return n
}

// testProduce has a page of the node's own produce a stream and follow it, by fetch and
// by EventSource.
func testProduce(t *testing.T, browser context.Context) {
	p := openAt(t, browser, openRealNode(t).URL(), "web/icon.svg") // a page that does nothing
	got := eval[[]string](p, `(async () => {
		const { follow, produce } = await import('/web/client/rillkeep.js');
		const producer = await produce({ streamId: 's' });
		const readers = ['fetch', 'eventsource'].map((source) => follow({ streamId: 's', source }));
		let want = '';
		for (let i = 0; i < 500; i++) {
			want += i + ' \u{1f600} ';
			await producer.push(i + ' \ud83d');
			await producer.push('\ude00 ');
			if (i % 100 === 0) await producer.flush();
		}
		await producer.pump(new Blob(['end']).stream());
		const sealed = await producer.close();
		const states = await Promise.all(readers.map((reader) => reader.done));
		return [want + 'end', sealed.status, ...states.flatMap(({ text, status }) => [text, status])];
	})()`)
	want := []string{got[0], "complete", got[0], "complete", got[0], "complete"}
	if diff := cmp.Diff(want, got); diff != "" || len(got[0]) < 3000 {
		t.Errorf("want-, got+:\n%s", diff)
	}
	p.check()
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
