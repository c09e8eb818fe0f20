package node

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router"
)

func TestLimitsAreThoseOfTheREADME(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits router.Limits
		header time.Duration
	}{
		"defaults": {router.Limits{}, 10 * time.Second},
		"given":    {router.Limits{HeaderTime: time.Second}, time.Second},
	} {
		n, err := Open(t.Context(), Config{Listen: "127.0.0.1:0", Data: t.TempDir(), Limits: c.limits})
		if err != nil {
			t.Fatal(err)
		}
		s := n.server
		if s.ReadHeaderTimeout != c.header || s.IdleTimeout != 2*time.Minute || s.MaxHeaderBytes != 32<<10 ||
			s.ReadTimeout != 0 || s.WriteTimeout != 0 { // which would end a long read
			t.Errorf("%s: %+v", name, s)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
	policy := plane.Policy{
		Units: 512, Interval: 750 * time.Millisecond, Retries: 3, RetryDelay: 50 * time.Millisecond, MaxBackoff: 30 * time.Second,
		SealPatience: 30 * time.Second, StoreTimeout: 10 * time.Second, MaxSlice: 256 << 10, MaxOutstanding: 1 << 20, MaxUnits: 16 << 20, CancelGrace: 2 * time.Second,
	}
	if diff := cmp.Diff(policy, plane.DefaultPolicy()); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
	if actor.DefaultLinger != 30*time.Second || actor.DefaultMaxStreams != 250_000 || actor.DefaultJoinWait != 2*time.Second ||
		DefaultDrain != 25*time.Second {
		t.Error("linger, streams, wait of a join, or drain")
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, said := range []string{
		"| checkpoint | 512 units outstanding, or 750 ms after",
		"| one checkpoint | at most 256 Ki units;",
		"| a failing store | 3 repeats after 50, 100, 200 ms; then one attempt a step, 750 ms doubling to 30 s |",
		"| a close whose row somebody else has locked | asks again for 30 s |",
		"| text waiting for the store | 1 Mi units,",
		"| length of a stream | 16 Mi units |",
		"| streams in memory on a node | 250,000 |",
		"| ended stream | stays in memory, and joinable live, for 30 s |",
		"| reader that comes while an open is being decided | waits 2 s |",
		"| request header | 32 KiB, in 10 s |",
		"| connection between requests | 2 min |",
		"| cancelled stream | sealed after 2 s ",
		"exits within `--drain` (25 s)",
	} {
		if !strings.Contains(string(readme), said) {
			t.Errorf("README does not say %q", said)
		}
	}
}
