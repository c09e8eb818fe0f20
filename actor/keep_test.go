package actor_test

import (
	"testing"
	"testing/synctest"
)

// laterStages are the groups that need what is not built yet, with the reason.
var laterStages = map[string]string{
	"relay": "needs the relay between nodes",
}

// TestKeptBehaviour replays every vector whose behaviour is to be kept.
func TestKeptBehaviour(t *testing.T) {
	for _, file := range []string{"plane.json", "plane_random.json"} {
		for _, v := range loadVectors(t, file) {
			if v.Verdict != "keep" || laterStages[v.Group] != "" {
				continue
			}
			t.Run(v.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := play(t, v)
					defer s.end()
					want := v.Expect
					if d, ok := deviations[v.Name]; ok {
						d.change(&want)
					}
					s.compare(want)
				})
			})
		}
	}
}
