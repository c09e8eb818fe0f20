package plane_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/plane"
)

// The figures are those that the README promises.
func TestDefaultsAreTheDocumentedOnes(t *testing.T) {
	want := plane.Policy{
		Units:          512,
		Interval:       750 * time.Millisecond,
		Retries:        3,
		RetryDelay:     50 * time.Millisecond, // then 100 and 200 ms
		MaxBackoff:     30 * time.Second,
		SealPatience:   30 * time.Second,
		StoreTimeout:   10 * time.Second,
		MaxSlice:       262_144,
		MaxOutstanding: 1_048_576,
		MaxUnits:       16_777_216,
		CancelGrace:    2 * time.Second,
		MaxLag:         0, // no limit
	}
	if d := cmp.Diff(want, plane.DefaultPolicy()); d != "" {
		t.Errorf("the default policy (-want +got):\n%s", d)
	}
	if plane.DefaultRetain != 65_536 {
		t.Errorf("retains %d units", plane.DefaultRetain)
	}
}

func TestCallbackModeRetains64KiUnitsUnlessToldOtherwise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newCallback(t, 0, func(_ *application, c *plane.Config) { c.Retain = nil })
		s.push(strings.Repeat("x", 70_000))
		wantAnswer(t, "flush", s.flushed(), nil)
		const floor = 70_000 - 65_536
		for _, from := range []int64{0, floor - 1} {
			if got := s.join(from); got.last.Kind != plane.KindStale || got.last.FloorSeq != floor || got.text != "" {
				t.Errorf("a reader from %d got %d units and %+v, want stale", from, len(got.text), got.last)
			}
		}
		if got := s.join(floor); got.from != floor || got.text != s.pushed[floor:] {
			t.Errorf("a reader from the floor got %d units from %d", len(got.text), got.from)
		}
	})
}
