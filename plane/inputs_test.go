package plane_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"rillkeep.dev/rillkeep/plane"
)

// input reads a file of one recorded case.
func input(t *testing.T, name, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "inputs", name, file))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// expected is what a recorded case must come to.
type expected struct {
	Text   string
	Units  int64 `json:"utf16_units"`
	SHA256 string

	Prefer  *expected
	Allowed map[string]expected
	Frames  []struct {
		Text       string
		Start, End int64
	}
	CursorToRest map[string]string `json:"cursor_to_rest"`
}

func expectedOf(t *testing.T, name string) expected {
	t.Helper()
	var e expected
	if err := json.Unmarshal(input(t, name, "expected.json"), &e); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return e
}

// wantText checks a text against what a case must come to.
func (e expected) wantText(t *testing.T, text string) {
	t.Helper()
	sum := sha256.Sum256([]byte(text))
	if got := hex.EncodeToString(sum[:]); got != e.SHA256 || plane.Units(text) != e.Units {
		t.Errorf("a text of %d units with hash %s, want %d and %s", plane.Units(text), got, e.Units, e.SHA256)
	}
}

// deltas reads a file of appends, one a line. Half of a pair stays one.
func deltas(t *testing.T, name, file string) []string {
	t.Helper()
	var out []string
	for line := range strings.Lines(string(input(t, name, file))) {
		var delta struct{ Text json.RawMessage }
		if err := json.Unmarshal([]byte(line), &delta); err != nil {
			t.Fatalf("%s of %s: %v", file, name, err)
		}
		if delta.Text == nil {
			continue // the finish
		}
		text, err := plane.UnescapeJSON(nil, delta.Text)
		if err != nil {
			t.Fatalf("%s of %s: %v", file, name, err)
		}
		out = append(out, string(text))
	}
	return out
}

// TestRecordedTextsAreTheSameOnBothPlanes pushes recorded deltas with a
// checkpoint after each, or with one for all, and compares what readers got and
// what is stored.
func TestRecordedTextsAreTheSameOnBothPlanes(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		want       func(expected) expected
	}{
		{"17-nul-and-controls", "appends.jsonl", func(e expected) expected { return e.Allowed["NUL to U+FFFD"] }},
		{"18-lone-surrogates", "appends.jsonl", func(e expected) expected { return *e.Prefer }},
		{"18-lone-surrogates", "never-completed.jsonl", func(expected) expected { return textOf("A\uFFFDB") }},
		{"18-lone-surrogates", "low-first.jsonl", func(expected) expected { return textOf("\uFFFDx") }},
		{"20-utf16-offsets", "appends.jsonl", func(e expected) expected { return whole(e) }},
		{"21-exact-text", "appends.jsonl", func(e expected) expected { return e }},
	} {
		for _, flushed := range []bool{false, true} {
			t.Run(tt.name+"/"+tt.file+"/flushed="+strconv.FormatBool(flushed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					want := tt.want(expectedOf(t, tt.name))
					s := newScene(t, func(s *scene, _ *plane.Config) { s.store.RejectNUL = true })
					c := s.Join(0)
					defer c.Close()
					var live string
					for _, delta := range deltas(t, tt.name, tt.file) {
						if err := s.Push(s.ctx, delta); err != nil {
							t.Fatal(err)
						}
						live += take(c).text
						if !flushed {
							continue
						}
						if n, err := s.Flush(s.ctx); err != nil || n != plane.Units(live) {
							t.Fatalf("flush answered %d, %v after %d units", n, err, plane.Units(live))
						}
						if r, _ := s.store.Row("m1"); r.Seq != plane.Units(live) {
							t.Fatalf("stored %d, live %d", r.Seq, plane.Units(live))
						}
					}
					if _, err := s.Close(s.ctx); err != nil {
						t.Fatal(err)
					}
					live += take(c).text
					want.wantText(t, live)
					want.wantText(t, s.join(0).text)
					r, _ := s.store.Row("m1")
					want.wantText(t, r.Body)
				})
			})
		}
	}
}

func textOf(text string) expected {
	sum := sha256.Sum256([]byte(text))
	return expected{Text: text, Units: plane.Units(text), SHA256: hex.EncodeToString(sum[:])}
}

func whole(e expected) expected { return textOf(e.CursorToRest["0"]) }

// TestEveryCursorGetsTheRest joins at each offset of a text that holds pairs,
// joined sequences and combining marks.
func TestEveryCursorGetsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const name = "20-utf16-offsets"
		e := expectedOf(t, name)
		s := newScene(t, nil)
		c := s.Join(0)
		defer c.Close()
		for i, delta := range deltas(t, name, "appends.jsonl") {
			s.push(delta)
			got, want := take(c), e.Frames[i]
			if f := got.last; f.From != want.Start || f.Seq != want.End || f.Text != want.Text {
				t.Errorf("frame %d is %+v, want %+v", i, f, want)
			}
		}
		for at := int64(0); at <= plane.Units(s.pushed); at++ {
			got := s.join(at)
			rest, border := e.CursorToRest[strconv.FormatInt(at, 10)]
			switch {
			case border && (got.from != at || got.text != rest):
				t.Errorf("from %d: got %q at %d, want %q", at, got.text, got.from, rest)
			case !border && (got.from != at-1 || got.text != e.CursorToRest[strconv.FormatInt(at-1, 10)]):
				t.Errorf("from %d, inside a pair: got %q at %d", at, got.text, got.from)
			}
		}
	})
}

// recordedStep is a neutral operation of a producer.
type recordedStep struct {
	Op, Text string
	Pos      *int64
}

func steps(t *testing.T, name string) []recordedStep {
	t.Helper()
	var list []recordedStep
	if err := json.Unmarshal(input(t, name, "steps.json"), &list); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return list
}

// TestARepeatedAppendIsAbsorbed plays a producer that does not know which of its
// appends arrived.
func TestARepeatedAppendIsAbsorbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const name = "23-append-retry"
		e := expectedOf(t, name)
		s := newScene(t, nil)
		for i, step := range steps(t, name) {
			if step.Op != "append" {
				continue
			}
			err := s.PushAt(s.ctx, *step.Pos, step.Text)
			if step.Text != " OTHER" {
				if err != nil {
					t.Fatalf("step %d: append at %d answered %v", i, *step.Pos, err)
				}
				continue
			}
			var offset *plane.OffsetError
			if !errors.Is(err, plane.ErrConflict) || !errors.As(err, &offset) || offset.Want != 14 {
				t.Errorf("step %d: other text at %d answered %v", i, *step.Pos, err)
			}
		}
		if _, err := s.Close(s.ctx); err != nil {
			t.Fatal(err)
		}
		r, _ := s.store.Row("m1")
		e.wantText(t, r.Body)
		e.wantText(t, s.join(0).text)
	})
}

// TestTextIsFrozenAtTheFirstEnd plays a producer that pushes after a stop, and
// many ends that race.
func TestTextIsFrozenAtTheFirstEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const name = "29-append-after-end"
		e := expectedOf(t, name)
		s := newScene(t, nil)
		c := s.Join(0)
		defer c.Close()
		s.push("one two three")
		s.Cancel()
		if _, err := s.Close(s.ctx); err != nil {
			t.Fatal(err)
		}
		if err := s.Push(s.ctx, " GHOST"); !errors.Is(err, plane.ErrClosed) {
			t.Errorf("push answered %v", err)
		}
		if end, err := s.Close(s.ctx); err != nil || end.Status != plane.StatusCancelled {
			t.Errorf("the second close answered %+v, %v", end, err)
		}
		for _, got := range []taken{take(c), s.join(0)} {
			e.wantText(t, got.text)
			if got.last.Kind != plane.KindEnd || got.last.Status != plane.StatusCancelled {
				t.Errorf("a reader was told %+v last", got.last)
			}
		}
		s.wantSealed(plane.StatusCancelled)
	})
}
