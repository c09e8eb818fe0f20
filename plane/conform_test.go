package plane_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/plane"
)

type conformCase struct {
	Name, StreamID, Verdict string
	From                    int64
	Raw                     bool
	Tags                    []string
	In                      []recordedValue
	Out                     []recordedValue
	Violations              int
	Codes                   []string
	Class                   struct{ Steps []json.RawMessage }
	Ended                   bool
}

// passed is what a Conform made of a source.
type passed struct {
	Frames string // one a line
	Steps  []string
	Codes  []string
	Done   bool
}

// pass sends a source through a Conform: JSON texts of frames, END and FAIL.
func pass(tb testing.TB, streamID string, from int64, source []string) passed {
	tb.Helper()
	c := plane.NewConform(streamID, from)
	var p passed
	for _, in := range source {
		out, err := conformStep(c, nil, in)
		p.Frames += lines(out)
		p.Steps = append(p.Steps, lines(out))
		if err != nil {
			v, ok := errors.AsType[plane.Violation](err)
			if !ok {
				tb.Fatalf("%q is no violation", err)
			}
			p.Codes = append(p.Codes, string(v))
		}
	}
	p.Done = c.Done()
	return p
}

func conformStep(c *plane.Conform, out []plane.Frame, in string) ([]plane.Frame, error) {
	switch in {
	case "END":
		return c.End(out, nil)
	case "FAIL":
		return c.End(out, errors.New("connection reset"))
	}
	f, err := plane.ParseFrame([]byte(in))
	if err != nil {
		return c.End(out, err)
	}
	return c.Step(out, f)
}

func (c conformCase) source(tb testing.TB) []string {
	var source []string
	for _, in := range c.In {
		s := string(in.wire)
		if c.Raw || s == `"END"` || s == `"FAIL"` {
			s = in.text(tb)
		}
		source = append(source, s)
	}
	return source
}

func (c conformCase) lines(tb testing.TB, values []recordedValue) string {
	var frames []plane.Frame
	for _, v := range values {
		frames = append(frames, v.frame(tb))
	}
	return lines(frames)
}

func TestConformAnswersAsRecorded(t *testing.T) {
	for _, c := range recordedCases[conformCase](t, "conform.json") {
		if c.Verdict != "keep" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			got := pass(t, c.StreamID, c.From, c.source(t))
			if diff := cmp.Diff(c.lines(t, c.Out), got.Frames); diff != "" {
				t.Errorf("frames (-want +got):\n%s", diff)
			}
			if len(got.Codes) != c.Violations || !slices.Equal(got.Codes, c.Codes) {
				t.Errorf("violations %v, want %v", got.Codes, c.Codes)
			}
			if got.Done != c.Ended {
				t.Errorf("done = %v, want %v", got.Done, c.Ended)
			}
			if slices.Contains(c.Tags, "unknown") {
				return // the recorded pass itself had no answer there
			}
			for i, step := range c.Class.Steps {
				var frames []recordedValue
				if err := json.Unmarshal(step, &frames); err != nil {
					t.Fatal(err)
				}
				if want := c.lines(t, frames); got.Steps[i] != want {
					t.Errorf("step %d: got %s, want %s", i, got.Steps[i], want)
				}
			}
		})
	}
}

// TestConformIsStricterThanRecorded holds our answer to each case in which the
// recorded one is not wanted.
func TestConformIsStricterThanRecorded(t *testing.T) {
	const opened = `{"type":"open","streamId":"m1","from":0,"seq":0,"durableSeq":0,"ended":false}` + "\n"
	const staleAt0 = `{"type":"stale","floorSeq":0,"durableSeq":0}` + "\n"
	wants := map[string]struct {
		frames string
		code   plane.Violation // "" for none
	}{
		"open-durable-negative-passes": {staleAt0, plane.OpenMalformed},
		"open-ended-missing-passes":    {staleAt0, plane.OpenMalformed},
		"open-ended-wrong-type-passes": {staleAt0, plane.OpenMalformed},
		"overlap-with-other-text-passes": {
			opened + lines([]plane.Frame{chunk(0, "abcd"), stale(4, 0)}), plane.ChunkDiffers,
		},
		"two-producers-mixed": {
			opened + lines([]plane.Frame{chunk(0, "abcd"), stale(4, 0)}), plane.ChunkDiffers,
		},
		"extra-field-kept": {
			opened + lines([]plane.Frame{chunk(0, "ab"), end(2, "complete")}), "",
		},
		"beyond-safe-integers-rounds": {
			lines([]plane.Frame{stale(plane.MaxOffset, 0)}), plane.ChunkSpan,
		},
		"1e300-is-an-integer": {staleAt0, plane.ChunkSpan},
		"own-open-durable-not-remembered": {
			lines([]plane.Frame{open(0, 5, 5), chunk(0, "abcde"), stale(5, 5)}), plane.NoTerminal,
		},
		"end-status-missing-passes": {
			opened + lines([]plane.Frame{chunk(0, "ab"), stale(2, 0)}), plane.EndMalformed,
		},
		"end-error-object-passes":   {staleAt0, plane.EndMalformed},
		"stale-fields-not-checked":  {staleAt0, ""},
		"absent-extra-field":        {`{"type":"absent"}` + "\n", ""},
		"raw-seq-1e400-is-infinite": {staleAt0, plane.EndMalformed},
	}
	for _, c := range recordedCases[conformCase](t, "conform.json") {
		if c.Verdict != "improve" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			want, ok := wants[c.Name]
			if !ok {
				t.Fatal("nothing is said here of what we want")
			}
			delete(wants, c.Name)
			got := pass(t, c.StreamID, c.From, c.source(t))
			if diff := cmp.Diff(want.frames, got.Frames); diff != "" {
				t.Errorf("frames (-want +got):\n%s", diff)
			}
			if codes := strings.Join(got.Codes, " "); codes != string(want.code) {
				t.Errorf("violations %q, want %q", codes, want.code)
			}
		})
	}
	for name := range wants {
		t.Errorf("%s is not recorded", name)
	}
}

// step sends frames through c, which none of them may violate.
func step(tb testing.TB, c *plane.Conform, frames ...plane.Frame) []plane.Frame {
	tb.Helper()
	var out []plane.Frame
	for _, f := range frames {
		var err error
		if out, err = c.Step(out, f); err != nil {
			tb.Fatalf("%s: %v", plane.AppendJSON(nil, f), err)
		}
	}
	return out
}

func wantViolation(tb testing.TB, err error, want plane.Violation) {
	tb.Helper()
	if !errors.Is(err, want) {
		tb.Errorf("error %v, want %v", err, want)
	}
}

func TestConformTakesTheOwnersClampedOpen(t *testing.T) {
	in := []plane.Frame{open(7, 7, 7), chunk(7, "xyz"), end(10, "complete")}
	got := step(t, plane.NewConform("m1", 1000), in...)
	if diff := cmp.Diff(lines(in), lines(got)); diff != "" {
		t.Error(diff)
	}
}

func TestConformSkipsUnknownFramesOnlyIfTheySayTheyAreOptional(t *testing.T) {
	got := pass(t, "m1", 0, []string{
		`{"type":"progress","optional":true,"percent":[1,{"of":2}]}`,
		`{"type":"chunk","from":0,"seq":1,"text":"a","optional":true}`,
		`{"type":"heartbeat","optional":"true"}`,
	})
	want := lines([]plane.Frame{open(0, 0, 0), chunk(0, "a"), stale(1, 0)})
	if got.Frames != want || !slices.Equal(got.Codes, []string{"broken-frame"}) {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestConformDropsADurableBelowTheSourcesOpen(t *testing.T) {
	got := step(t, plane.NewConform("m1", 0), open(0, 8, 6), chunk(0, "12345678"), durable(5), durable(7))
	want := []plane.Frame{open(0, 8, 6), chunk(0, "12345678"), durable(7)}
	if diff := cmp.Diff(lines(want), lines(got)); diff != "" {
		t.Error(diff)
	}
}

func TestConformComparesARepeatThatAddsNothing(t *testing.T) {
	c := plane.NewConform("m1", 0)
	step(t, c, open(0, 0, 0), chunk(0, "abcdef"))
	out, err := c.Step(nil, chunk(2, "cX"))
	wantViolation(t, err, plane.ChunkDiffers)
	if want := lines([]plane.Frame{stale(6, 0)}); lines(out) != want {
		t.Errorf("got %s, want %s", lines(out), want)
	}
}

func TestConformEndsAtAChangeOfEpoch(t *testing.T) {
	for _, epoch := range []int64{1, 3} {
		c := plane.NewConform("m1", 0)
		step(t, c, inEpoch(2, open(0, 0, 0)), inEpoch(2, chunk(0, "abc")), durable(3))
		out, err := c.Step(nil, inEpoch(epoch, open(0, 3, 3)))
		wantViolation(t, err, plane.EpochChanged)
		if want := lines([]plane.Frame{stale(3, 3)}); lines(out) != want {
			t.Errorf("epoch %d: got %s, want %s", epoch, lines(out), want)
		}
	}
}

func TestConformMakesUpAnOpenInTheSourcesEpoch(t *testing.T) {
	out := step(t, plane.NewConform("m1", 4), inEpoch(3, chunk(4, "e")))
	if out[0].Kind != plane.KindOpen || out[0].Epoch != 3 {
		t.Errorf("got %+v, want an open in epoch 3", out[0])
	}
}

func TestConformAbsorbsWhatAnotherSourceRepeats(t *testing.T) {
	c := plane.NewConform("m1", 0)
	step(t, c, open(0, 9, 0), chunk(0, "one 😀 "), chunk(7, "two"))
	if c.Pos() != 10 {
		t.Fatalf("at %d, want 10", c.Pos())
	}
	got := step(t, c, open(4, 12, 6), chunk(4, "😀 two"), chunk(4, "😀 two 3"), end(12, "complete"))
	want := []plane.Frame{chunk(4, "😀 two 3"), end(12, "complete")}
	if diff := cmp.Diff(lines(want), lines(got)); diff != "" {
		t.Error(diff)
	}
}

func TestConformKeepsTheCauseOfAFailure(t *testing.T) {
	cause := errors.New("connection reset")
	_, err := plane.NewConform("m1", 0).End(nil, fmt.Errorf("read frame: %w", cause))
	wantViolation(t, err, plane.SourceFailed)
	if !errors.Is(err, cause) {
		t.Errorf("%v hides its cause", err)
	}
}

func TestConformComparesRepeatsWithinTheHeldTail(t *testing.T) {
	for _, piece := range []string{"a", "é", "漢", "😀", "😀a"} {
		text := strings.Repeat(piece, 1000)
		units := plane.Units(text)
		c := plane.NewConform("m1", 0)
		step(t, c, open(0, 0, 0))
		for range 300 {
			repeat := chunk(max(0, c.Pos()-units), text)
			if out := step(t, c, chunk(c.Pos(), text), repeat); len(out) != 1 {
				t.Fatalf("%s: got %s", piece, lines(out))
			}
		}
		step(t, c, chunk(0, strings.Repeat("x", 1000))) // no longer held
		held := c.Pos() - c.Pos()%units - 10*units
		_, err := c.Step(nil, chunk(held, piece+"y"))
		wantViolation(t, err, plane.ChunkDiffers)
	}
}
