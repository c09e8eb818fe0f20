package webtest_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"rillkeep.dev/rillkeep/router/web/webtest"
)

func TestBrowserOpensWithTabs(t *testing.T) {
	first := webtest.Open(t)
	second := webtest.NewTab(t, first)
	for name, tab := range map[string]context.Context{"first": first, "second": second} {
		got, err := chromedp.Run(tab, chromedp.Evaluate[int]("1 + 1"))
		if err != nil || got != 2 {
			t.Errorf("%s tab: got %d, %v", name, got, err)
		}
	}
}

// failing is a test whose end is looked at.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestWithoutBrowserATestFailsAndSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("RILLKEEP_TEST_CHROMIUM", "")
	f := &failing{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		webtest.Open(f)
	}()
	<-done
	if !strings.Contains(f.said, "apt-get install chromium") || strings.Contains(f.said, "\n") {
		t.Errorf("says %q", f.said)
	}
}
