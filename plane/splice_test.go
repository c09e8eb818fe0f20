package plane_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"rillkeep.dev/rillkeep/plane"
)

type spliceCase struct {
	Name, Verdict          string
	Durable, Produced, Out recordedValue
}

func TestSpliceAnswersAsRecorded(t *testing.T) {
	for _, c := range recordedCases[spliceCase](t, "splice.json") {
		if c.Verdict != "keep" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			if got := plane.Splice(c.Durable.text(t), c.Produced.text(t)); got != c.Out.text(t) {
				t.Errorf("got %q, want %q", got, c.Out.text(t))
			}
		})
	}
}

// TestMergeReportsTextsThatDiffer is what we want where the recorded splice
// mixes two texts.
func TestMergeReportsTextsThatDiffer(t *testing.T) {
	for _, c := range recordedCases[spliceCase](t, "splice.json") {
		if c.Verdict != "improve" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			got, err := plane.Merge(c.Durable.text(t), c.Produced.text(t))
			if got != c.Durable.text(t) || !errors.Is(err, plane.ErrDiverged) {
				t.Errorf("got %q, %v, want the durable text and ErrDiverged", got, err)
			}
		})
	}
}

func TestMergeJoinsHalvesOfAPair(t *testing.T) {
	if got, err := plane.Merge("a\xed\xa0\xbd", "a😀b"); got != "a😀b" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestSpliceOfTwoPrefixesIsTheLonger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newTruth(rapid.StringOfN(rapid.SampledFrom([]rune("aé漢😀")), 0, 20, -1).Draw(t, "text"))
		d, p := w.draw(t, 0, w.end(), "durable"), w.draw(t, 0, w.end(), "produced")
		durable, produced, want := w.text(0, d), w.text(0, p), w.text(0, max(d, p))
		if got := plane.Splice(durable, produced); got != want {
			t.Fatalf("Splice gives %q, want %q", got, want)
		}
		if got, err := plane.Merge(durable, produced); got != want || err != nil {
			t.Fatalf("Merge gives %q, %v, want %q", got, err, want)
		}
	})
}
