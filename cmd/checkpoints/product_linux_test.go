package main

import (
	"regexp"
	"testing"
)

func TestTheProductTellsItsCostAndItsLongestDelay(t *testing.T) {
	t.Parallel()
	got := lines(t, "-product", "-streams", "20", "-product-length", "2s")
	for n, want := range []string{
		`^streams=20 deltas/s=[0-9]+ checkpoints/s=[1-9][0-9]* failed=0 longest from produced to durable=[1-9][0-9.]*m?s$`,
		`^share of [0-9]+ cores: rillkeep and its producers=[0-9.]+ postgres=[0-9.]+$`,
	} {
		if len(got) != 2 || !regexp.MustCompile(want).MatchString(got[n]) {
			t.Errorf("printed %q, want %s", got, want)
		}
	}
}
