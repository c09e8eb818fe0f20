package web_test

import (
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"rillkeep.dev/rillkeep/router/web"
	"rillkeep.dev/rillkeep/router/web/webtest"
)

func TestReal(t *testing.T) {
	browser := webtest.Open(t)
	n := openNode(t)
	n.URL = "http://127.0.0.1:18931"
	p := openPage(t, browser, n, "")
	p.do(chromedp.Click(chromedp.ID("play")))
	p.until("document.getElementById('text').textContent.length > 300")
	t.Log(p.says("link"), p.says("produced"), p.says("durable"), p.says("live"))
	p.do(chromedp.Reload())
	p.until("document.getElementById('text').textContent.length > 500")
	hash := eval[string](p, "location.hash")
	q := openPage(t, browser, n, hash)
	q.until("document.getElementById('text').textContent.length > 700")
	buf, _ := chromedp.Run(q.ctx, chromedp.CaptureScreenshot())
	os.WriteFile("/tmp/rk/shots/real.png", buf, 0o644)
	time.Sleep(time.Second)
	for _, p := range []*page{p, q} {
		p.untilStatus("Complete")
		p.untilText(web.SampleText())
		t.Log(p.says("link"), p.says("produced"), p.says("durable"))
	}
	time.Sleep(3*time.Second)
	p.do(chromedp.Reload())
	p.untilStatus("Complete")
	p.untilText(web.SampleText())
	t.Log(p.says("recent"))
	p.do(chromedp.Click(chromedp.ID("play")))
	p.untilStatus("Streaming")
	p.do(chromedp.Click(chromedp.ID("cancel")))
	p.untilStatus("Cancelled")
	t.Log(p.says("link"), p.says("produced"), p.says("durable"))
	p.do(chromedp.Navigate(n.URL + "/#nothing-here"))
	p.do(chromedp.Reload())
	p.until("document.getElementById('status').textContent === 'No stream'")
	t.Log(p.says("link"))
	time.Sleep(31*time.Second) // past the linger
	p.do(chromedp.Navigate(n.URL + "/" + hash))
	p.untilText(web.SampleText())
	p.untilStatus("Complete")
	p.check(); q.check()
}
