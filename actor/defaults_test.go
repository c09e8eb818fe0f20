package actor_test

import (
	"testing"
	"time"

	"rillkeep.dev/rillkeep/actor"
)

// The figures are those that the README promises.
func TestDefaultsAreTheDocumentedOnes(t *testing.T) {
	for _, d := range []struct {
		what      string
		got, want time.Duration
	}{
		{"linger", actor.DefaultLinger, 30 * time.Second},
		{"join wait", actor.DefaultJoinWait, 2 * time.Second},
		{"repair", actor.DefaultRepair, time.Second},
		{"attach window", actor.DefaultAttachWindow, 2 * time.Second},
		{"attach linger", actor.DefaultAttachLinger, time.Second},
	} {
		if d.got != d.want {
			t.Errorf("%s is %v, want %v", d.what, d.got, d.want)
		}
	}
	if actor.DefaultMaxStreams != 250_000 {
		t.Errorf("%d streams", actor.DefaultMaxStreams)
	}
}
