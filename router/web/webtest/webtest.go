// Package webtest opens a real browser for tests: Chromium, headless.
package webtest

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// pathVariable names the environment variable that says where Chromium is.
const pathVariable = "RILLKEEP_TEST_CHROMIUM"

// names are what Chromium is called on a PATH. .ci/tools looks for the same.
var names = []string{"chromium", "chromium-browser", "google-chrome"}

// patience is how long the browser may take to start, and to stop.
const patience = 30 * time.Second

// Open starts a browser with an empty profile of its own and returns the
// context of its first tab, for chromedp.Do and chromedp.Run. Bound single
// steps by contexts derived from it. The browser ends with the test.
//
// Where there is no Chromium the test fails: a page that was not looked at was
// not tested.
func Open(tb testing.TB) context.Context {
	tb.Helper()
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options(find(tb))...)
	ctx, _ := chromedp.NewContext(allocator)
	tb.Cleanup(func() {
		bounded, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err := chromedp.Cancel(bounded); err != nil {
			tb.Logf("close browser: %v", err)
		}
		stop() // waits for the process, and for its profile to be removed
	})
	start(tb, ctx)
	return ctx
}

// NewTab opens another tab in the browser of ctx. It closes with the test.
func NewTab(tb testing.TB, ctx context.Context) context.Context {
	tb.Helper()
	tab, cancel := chromedp.NewContext(ctx)
	tb.Cleanup(cancel)
	start(tb, tab)
	return tab
}

// start makes the first call on ctx. The browser lives as long as that call's
// context, so it must be this one and not one with a deadline.
func start(tb testing.TB, ctx context.Context) {
	tb.Helper()
	started := make(chan error, 1)
	go func() { started <- chromedp.Do(ctx) }()
	select {
	case err := <-started:
		if err != nil {
			tb.Fatalf("start browser: %v", err)
		}
	case <-time.After(patience):
		tb.Fatalf("start browser: nothing for %v", patience)
	}
}

func find(tb testing.TB) string {
	tb.Helper()
	for _, name := range append([]string{os.Getenv(pathVariable)}, names...) {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	tb.Fatalf("no browser: install Chromium (Debian: apt-get install chromium) or set %s to its path", pathVariable)
	return ""
}

func options(path string) []chromedp.ExecAllocatorOption {
	return append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.NoSandbox, // root, as CI often is, has none
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.Flag("no-proxy-server", true),
		chromedp.WindowSize(1280, 900),
	)
}
