package actor_test

import (
	"maps"
	"testing"
	"testing/synctest"
)

// TestKeptBehaviour replays every vector whose behaviour is to be kept.
func TestKeptBehaviour(t *testing.T) {
	for _, file := range []string{"plane.json", "plane_random.json"} {
		for _, v := range loadVectors(t, file) {
			if v.Verdict != "keep" {
				continue
			}
			t.Run(v.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := play(t, v)
					defer s.end()
					s.checkContracts()
					if outcomeOnly[v.Name] != nil {
						s.compareOutcome(v.Expect)
						return
					}
					want := v.Expect
					if d, ok := deviationOf(v.Name); ok {
						d.change(&want)
					}
					s.compare(want)
				})
			})
		}
	}
}

// TestEveryDeviationIsNamed holds the tables of deviations to the vectors: each
// names one that is replayed, and says why.
func TestEveryDeviationIsNamed(t *testing.T) {
	kept := map[string]bool{}
	for _, file := range []string{"plane.json", "plane_random.json"} {
		for _, v := range loadVectors(t, file) {
			kept[v.Name] = v.Verdict == "keep"
		}
	}
	all := maps.Clone(deviations)
	maps.Copy(all, relayDeviations)
	for name, d := range all {
		if !kept[name] || d.why == "" || outcomeOnly[name] != nil {
			t.Errorf("deviation %q: no vector that is replayed, no reason, or named twice", name)
		}
	}
	for name, why := range outcomeOnly {
		if !kept[name] || len(why) == 0 {
			t.Errorf("outcome of %q: no vector that is replayed, or no reason", name)
		}
	}
}
