package plane_test

import (
	"testing"

	"rillkeep.dev/rillkeep/plane"
)

type resumeCase struct {
	Name, Verdict string
	Frame         recordedValue
	Out           recordedValue
}

// Where our resume points differ from the recorded ones: a durable has none,
// since a reader that came back with it would be sent text again, and neither
// has a frame whose offset is no offset.
var resumesNowhere = map[string]bool{
	"durable": true, "durable-zero": true, "big": true, "negative": true,
	"fraction": true, "chunk-seq-string": true,
}

func TestResumePointIsAsRecorded(t *testing.T) {
	for _, c := range recordedCases[resumeCase](t, "resume.json") {
		t.Run(c.Name, func(t *testing.T) {
			want := string(c.Out.wire)
			if want == "null" || resumesNowhere[c.Name] {
				want = ""
			}
			f, _ := plane.ParseFrame(c.Frame.wire) // what is no frame is the zero one
			if got := string(plane.AppendResume([]byte("id: "), f)); got != "id: "+want {
				t.Errorf("got %q, want %q", got, "id: "+want)
			}
		})
	}
}

func TestResumePointNamesTheEpochFromTheSecondOn(t *testing.T) {
	for _, tt := range []struct {
		frame plane.Frame
		want  string
	}{
		{inEpoch(0, chunk(2, "ab")), "4"},
		{inEpoch(1, chunk(2, "ab")), "4"},
		{inEpoch(2, chunk(2, "ab")), "4@2"},
		{inEpoch(3, open(5, 9, 7)), "5@3"},
		{inEpoch(12, end(9, plane.StatusComplete)), "9@12"},
		{inEpoch(3, durable(9)), ""},
		{inEpoch(3, stale(9, 9)), ""},
		{inEpoch(3, plane.Frame{Kind: plane.KindAbsent}), ""},
	} {
		if got := string(plane.AppendResume(nil, tt.frame)); got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.frame, got, tt.want)
		}
	}
}

func TestParseResume(t *testing.T) {
	type point struct {
		offset, epoch int64
		ok            bool
	}
	none := point{}
	tests := map[string]point{
		"0": {0, 1, true}, "12": {12, 1, true}, "0012": {12, 1, true},
		"12@3": {12, 3, true}, "12@3@4": {12, 3, true}, "12@3x": {12, 3, true},
		"12@": {12, 1, true}, "12@0": {12, 1, true}, "12@x": {12, 1, true}, "12 @3": {12, 1, true},
		"12abc": {12, 1, true}, "12.9": {12, 1, true}, "1e3": {1, 1, true}, "0x10": {0, 1, true}, "1_000": {1, 1, true},
		"  12  ": {12, 1, true}, "+12": {12, 1, true}, "\u00a07": {7, 1, true}, "\t7": {7, 1, true},
		"9007199254740991":        {plane.MaxOffset, 1, true},
		"9007199254740993":        {plane.MaxOffset, 1, true},
		"99999999999999999999999": {plane.MaxOffset, 1, true},
		"1@99999999999999999999":  {1, plane.MaxOffset, true},

		"": none, " ": none, "+": none, "-": none, "-7": none, "-0": none, "++1": none, "+ 1": none, "abc": none,
		"@3": none, ".5": none, "Infinity": none, "NaN": none, "null": none, "１２": none,
	}
	for in, want := range tests {
		offset, epoch, ok := plane.ParseResume(in)
		if got := (point{offset, epoch, ok}); got != want {
			t.Errorf("%q: got %v, want %v", in, got, want)
		}
	}
}

func TestResumePointIsReadBack(t *testing.T) {
	for _, epoch := range []int64{1, 2, 77} {
		id := plane.AppendResume(nil, inEpoch(epoch, chunk(7, "abc")))
		if at, got, ok := plane.ParseResume(string(id)); at != 10 || got != epoch || !ok {
			t.Errorf("%s is read as %d in epoch %d, %v", id, at, got, ok)
		}
	}
}
