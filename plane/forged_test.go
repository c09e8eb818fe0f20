package plane_test

import (
	"testing"

	"rillkeep.dev/rillkeep/plane"
)

// A session is counted on from: one at the end of all numbers would leave the stream
// without a producer that is not refused.
func TestASessionThatCanNotBeCountedOnIsNone(t *testing.T) {
	const last = "9223372036854775807"
	if got, err := plane.ParseProducerEpoch("1." + last); err == nil {
		t.Errorf("%v is a producer epoch", got)
	}
	row := plane.Row{Token: "/1700." + last + "/2"}
	if !row.Disowned() {
		row.Status = plane.StatusStreaming
	}
	if !row.Disowned() || row.Session() != 0 {
		t.Errorf("disowned %v, session %d", row.Disowned(), row.Session())
	}
}
