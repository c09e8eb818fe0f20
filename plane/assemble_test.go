package plane_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"rillkeep.dev/rillkeep/plane"
)

type assembleCase struct {
	Name, Verdict string
	Message       struct{ Body recordedValue }
	Chunks        []struct {
		Seq  json.Number
		Text recordedValue
	}
	Out recordedValue
}

func (c assembleCase) chunks(tb testing.TB) []plane.Chunk {
	tb.Helper()
	var chunks []plane.Chunk
	for _, row := range c.Chunks {
		seq, err := row.Seq.Int64()
		if err != nil {
			tb.Fatal(err)
		}
		chunks = append(chunks, plane.Chunk{Seq: seq, Text: row.Text.text(tb)})
	}
	return chunks
}

// The recorded assembly closes up holes, and takes fractions for offsets. Of
// these cases we keep the order, not the answer: see the tests below.
var (
	assembledOverHoles = []string{"numeric-order-not-text", "big-seq"}
	assembledFractions = []string{"fraction-seq"}
)

func TestAssembleAnswersAsRecorded(t *testing.T) {
	for _, c := range recordedCases[assembleCase](t, "assemble.json") {
		if c.Verdict != "keep" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			if slices.Contains(assembledFractions, c.Name) {
				for _, row := range c.Chunks {
					if n, err := row.Seq.Int64(); err == nil {
						t.Errorf("a row ends at %d", n)
					}
				}
				return
			}
			chunks := c.chunks(t)
			given := slices.Clone(chunks)
			got, err := plane.Assemble(c.Message.Body.text(t), chunks)
			if slices.Contains(assembledOverHoles, c.Name) {
				if hole, ok := errors.AsType[*plane.HoleError](err); !ok || hole.At != 0 || got != "" {
					t.Errorf("got %q, %v, want a hole at 0", got, err)
				}
				return
			}
			if got != c.Out.text(t) || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, c.Out.text(t))
			}
			if !slices.Equal(chunks, given) {
				t.Errorf("the chunks were changed to %v", chunks)
			}
		})
	}
}

// TestAssemblePlacesEachRow holds our answer to each case in which the recorded
// one is not wanted.
func TestAssemblePlacesEachRow(t *testing.T) {
	wants := map[string]string{
		"torn-read-duplicates":          "abcdef",
		"overlapping-rows-not-detected": "abcde",
		"equal-seq-keeps-arrival":       "one",
	}
	for _, c := range recordedCases[assembleCase](t, "assemble.json") {
		if c.Verdict != "improve" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			want, ok := wants[c.Name]
			if !ok {
				t.Fatal("nothing is said here of what we want")
			}
			if got, err := plane.Assemble(c.Message.Body.text(t), c.chunks(t)); got != want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		})
	}
}

func TestAssembleOrdersRowsByNumber(t *testing.T) {
	rest := plane.Chunk{Seq: 99, Text: strings.Repeat(".", 89)}
	chunks := []plane.Chunk{{10, "j"}, {9, "i"}, {100, "z"}, rest, {8, "abcdefgh"}}
	got, err := plane.Assemble("", chunks)
	if want := "abcdefghij" + rest.Text + "z"; got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestAssembleStopsAtAHole(t *testing.T) {
	got, err := plane.Assemble("ab", []plane.Chunk{{8, "gh"}, {4, "cd"}})
	hole, ok := errors.AsType[*plane.HoleError](err)
	if got != "abcd" || !ok || *hole != (plane.HoleError{At: 4, Next: 6}) {
		t.Errorf("got %q, %v, want abcd and a hole from 4 to 6", got, err)
	}
}

func TestAssembleRefusesARowThatHoldsMoreThanItsEnd(t *testing.T) {
	if got, err := plane.Assemble("a", []plane.Chunk{{2, "abc"}}); got != "a" || err == nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestAssembleOfATornReadIsTheLongerText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newTruth(rapid.StringOfN(rapid.SampledFrom([]rune("aé漢😀")), 0, 30, -1).Draw(t, "text"))
		var chunks []plane.Chunk
		for at := int64(0); at < w.end(); {
			to := w.draw(t, at+1, w.end(), "to")
			chunks = append(chunks, plane.Chunk{Seq: to, Text: w.text(at, to)})
			at = to
		}
		chunks = rapid.Permutation(chunks).Draw(t, "order")
		body := w.text(0, w.draw(t, 0, w.end(), "body"))
		if got, err := plane.Assemble(body, chunks); got != w.text(0, w.end()) || err != nil {
			t.Fatalf("got %q, %v", got, err)
		}
	})
}
