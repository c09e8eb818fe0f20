package actor_test

import "maps"

// relayDeviations are deviations of the vectors whose streams come from elsewhere.
// What holds for all of them is in compare: that one attach serves all readers of a
// node, that they are answered with its first frame, and are cursors.
var relayDeviations = map[string]deviation{
	"relay/slow-reader-stale-at-cap": {
		"a reader is a cursor and has no queue to overflow: it gets everything, merged, and its source stays",
		func(e *expectation) {
			e.sub("r", catchesUp(5, "abcde"))
			e.Sources = map[string]sourced{"x": {Iterators: 1}}
		},
	},
	"random/91": {
		"a seal that did not reach the store ends readers as interrupted (W18)",
		func(e *expectation) {
			for _, r := range []string{"r1", "r2"} {
				e.sub(r, func(s *subscription) {
					last := &s.Frames[len(s.Frames)-1]
					last.Status, last.Error = "interrupted", nil
				})
			}
		},
	},
}

func deviationOf(name string) (deviation, bool) {
	all := maps.Clone(deviations)
	maps.Copy(all, relayDeviations)
	d, ok := all[name]
	return d, ok
}
