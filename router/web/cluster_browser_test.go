package web_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"rillkeep.dev/rillkeep/router/wire"
)

// three returns a cluster of as many nodes, with shares that differ.
func three() *wire.Cluster {
	return &wire.Cluster{Self: "dev-1/a", Ring: "5eed", Members: []wire.Member{
		{Name: "dev-1/a", Node: "dev-1", State: "active", Share: .5, NodeCounts: &wire.NodeCounts{Streams: 1200}},
		{Name: "dev-2/b", Node: "dev-2", State: "active", Share: .3, NodeCounts: &wire.NodeCounts{}},
		{Name: "dev-3/c", Node: "dev-3", State: "active", Share: .2},
	}}
}

// openCluster opens the page at a node of three, run by nobody.
func openCluster(t *testing.T, browser context.Context, change func(*node), fragment string) (*node, *page) {
	t.Helper()
	n := openNode(t)
	n.set(func(n *node) {
		n.cluster = three()
		if change != nil {
			change(n)
		}
	})
	p := openPage(t, browser, n, fragment)
	p.do(chromedp.WaitVisible(chromedp.ID("cluster")))
	return n, p
}

func run(n *node) {
	n.run = []process{{Name: "dev-1", State: "up"}, {Name: "dev-2", State: "up"}, {Name: "dev-3", State: "up"}}
}

// row is a selector of a node's part of the panel.
func row(node string) string { return `#cluster li[data-node="` + node + `"]` }

// untilRow waits until a node's part has all the words.
func (p *page) untilRow(node string, words ...string) {
	p.Helper()
	for _, word := range words {
		p.until(`document.querySelector('` + row(node) + `')?.textContent.includes('` + word + `')`)
	}
}

func testCluster(t *testing.T, browser context.Context) {
	n, p := openCluster(t, browser, nil, "")
	p.untilRow("dev-1", "Active", "50%", "1,200 live", "answers this page")
	p.untilRow("dev-2", "Active", "30%", "0 live")
	if got := eval[string](p, `document.querySelector('`+row("dev-3")+` .load').textContent`); got != "20% of new streams" {
		t.Errorf("of a member that did not say what it has: %q", got)
	}
	ring := "document.querySelector('#cluster svg')"
	if got := eval[string](p, ring+".getAttribute('aria-label')"); got != "Shares of new streams: dev-1 50%, dev-2 30%, dev-3 20%" {
		t.Errorf("the ring is said to be %q", got)
	}
	if got := eval[int](p, ring+".querySelectorAll('circle').length"); got != 3 {
		t.Errorf("the ring has %d parts", got)
	}
	if got := eval[int](p, "document.querySelectorAll('#cluster button').length"); got != 0 {
		t.Errorf("%d buttons, for nodes that nobody runs from here", got)
	}
	n.set(func(n *node) {
		n.cluster = three()
		n.cluster.Members = n.cluster.Members[:2]
		n.cluster.Members[1].State, n.cluster.Members[1].Share = "draining", 0
	})
	p.untilRow("dev-2", "Draining")
	p.until("!document.querySelector('" + row("dev-3") + "')")
	p.until("document.querySelector('#cluster [role=status]').textContent === 'dev-2: Draining.'")
	n.set(func(n *node) { // started again, before the old run has left
		n.cluster.Members = append(n.cluster.Members, wire.Member{Name: "dev-2/d", Node: "dev-2", State: "active", Share: .5})
	})
	p.untilRow("dev-2", "Active", "50%")
	p.check()
}

func testHome(t *testing.T, browser context.Context) {
	n := openNode(t)
	n.set(func(n *node) { n.cluster = three() })
	n.push("here", "text")
	n.push("gone", "text")
	n.push("none", "text")
	n.change("here", func(s *stream) { s.host = "dev-2/b" })
	n.change("gone", func(s *stream) { s.host = "dev-2/before" })
	p := openPage(t, browser, n, "#here")
	home := func(id string) string { return `document.querySelector('li[data-id="` + id + `"] .home')` }
	p.until(home("here") + "?.textContent === 'dev-2'")
	p.until(home("gone") + "?.textContent === 'dev-2, lost'")
	p.until("document.getElementById('home').textContent === 'dev-2'")
	if !eval[bool](p, home("none")+".hidden") {
		t.Error("a stream has a node though its row has none")
	}
	colour := "getComputedStyle(" + home("here") + ").color"
	if got, want := eval[string](p, colour), eval[string](p, `getComputedStyle(document.querySelector('`+row("dev-2")+` .name')).color`); got != want {
		t.Errorf("the stream's node is %s, the node %s", got, want)
	}
	n.change("here", func(s *stream) { s.host = "dev-3/c" }) // handed over
	p.until("document.getElementById('home').textContent === 'dev-3'")
	n.end("here", "complete")
	p.until("document.getElementById('home').hidden")
	p.check()
}

func testActions(t *testing.T, browser context.Context) {
	n, p := openCluster(t, browser, run, "")
	button := func(node, action string) string { return row(node) + ` button[data-action="` + action + `"]` }
	press := func(node, action string) {
		t.Helper()
		p.do(chromedp.Click(chromedp.CSS(button(node, action))))
	}
	press("dev-2", "kill")
	p.untilRow("dev-2", "Down", "signal: killed", "Start")
	if got := eval[string](p, `document.querySelector('`+button("dev-2", "kill")+`').getAttribute('aria-disabled')`); got != "true" {
		t.Errorf("what is down can be killed: %q", got)
	}
	press("dev-2", "kill")
	press("dev-2", "restart")
	p.untilRow("dev-2", "Active", "Restart")

	// By the keyboard, whose focus stays where it was though the button is another.
	p.do(chromedp.Focus(chromedp.CSS(button("dev-3", "pause"))), chromedp.KeyEvent("\r"))
	p.untilRow("dev-3", "Paused")
	p.until("document.activeElement.getAttribute('aria-label') === 'Resume dev-3'")
	p.do(chromedp.KeyEvent(" "))
	p.until("document.activeElement.getAttribute('aria-label') === 'Pause dev-3'")
	p.untilRow("dev-3", "Active")
	press("dev-1", "stop")
	p.untilRow("dev-1", "Draining")
	p.until("document.querySelector('#cluster [role=status]').textContent === 'dev-1: Draining.'")

	want := []string{"dev-2 kill", "dev-2 restart", "dev-3 pause", "dev-3 resume", "dev-1 stop"}
	n.set(func(n *node) {
		if !slices.Equal(n.did, want) {
			t.Errorf("did %q, want %q", n.did, want)
		}
		n.run[1].State = "down" // and then not to be had
		n.run = n.run[:2]
	})
	press("dev-3", "kill")
	p.until("document.getElementById('notice').textContent.includes('there is no dev-3')")
	p.check()
}

func testClusterOnAPhone(t *testing.T, browser context.Context) {
	_, p := openCluster(t, browser, run, "#s")
	p.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile))
	p.do(chromedp.WaitVisible(chromedp.CSS(row("dev-3") + ` button[data-action="restart"]`)))
	if got := eval[int](p, "document.documentElement.scrollWidth"); got > 360 {
		t.Errorf("page is %d wide", got)
	}
	name := `getComputedStyle(document.querySelector('` + row("dev-1") + ` .name')).color`
	light := eval[string](p, name)
	p.darken()
	if got := eval[string](p, name); got == light {
		t.Errorf("a node is %s in the dark too", got)
	}
	p.check()
}

func testAlone(t *testing.T, browser context.Context) {
	n := openNode(t)
	n.push("s", "text")
	n.change("s", func(s *stream) { s.host = "n1/boot" })
	p := openPage(t, browser, n, "#s")
	p.untilText("text")
	p.until("document.querySelector('li[data-id=s]')")
	asked := func() (cluster, list int) {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, r := range n.requests {
			switch {
			case r == "GET /v1/cluster":
				cluster++
			case strings.HasPrefix(r, "GET /v1/streams?"):
				list++
			case strings.Contains(r, "/dev/"):
				t.Errorf("page asked for %s", r)
			}
		}
		return cluster, list
	}
	for {
		if cluster, list := asked(); list >= 3 { // by when a second look had been
			if cluster != 1 {
				t.Errorf("asked for the cluster %d times", cluster)
			}
			break
		}
		p.until("true")
	}
	if p.shows("cluster") || p.shows("home") {
		t.Error("a cluster is shown")
	}
	p.check()
}

func testClusterToken(t *testing.T, browser context.Context) {
	n := openNode(t)
	n.set(func(n *node) { n.cluster, n.token = three(), "secret" })
	p := openPage(t, browser, n, "")
	p.do(chromedp.WaitVisible(chromedp.ID("token-form")))
	if p.shows("cluster") {
		t.Error("the cluster is shown without a token")
	}
	p.do(chromedp.SendKeys(chromedp.ID("token"), "secret\r"), chromedp.WaitVisible(chromedp.ID("cluster")))
	p.untilRow("dev-1", "Active")
	p.check()
}
