package plane_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/plane"
)

// recordedCases reads a file of recorded cases, each into a T.
func recordedCases[T any](tb testing.TB, name string) []T {
	tb.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	var file struct {
		Count int
		Cases []T
	}
	if err := json.Unmarshal(data, &file); err != nil {
		tb.Fatal(err)
	}
	if len(file.Cases) == 0 || len(file.Cases) != file.Count {
		tb.Fatalf("%s holds %d cases, should hold %d", name, len(file.Cases), file.Count)
	}
	return file.Cases
}

// recordedValue is a value of a recorded case as the JSON text that a peer would
// send for it: half pairs become escapes again, a number that JSON cannot hold
// becomes null, as JSON.stringify has it.
type recordedValue struct{ wire []byte }

func (v *recordedValue) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var x any
	if err := d.Decode(&x); err != nil {
		return err
	}
	v.wire = appendWire(nil, x)
	return nil
}

func appendWire(dst []byte, x any) []byte {
	switch x := x.(type) {
	case json.Number:
		return append(dst, x...)
	case map[string]any:
		if n, ok := x["$num"]; ok {
			if n == "-0" {
				return append(dst, "-0"...)
			}
			return append(dst, "null"...)
		}
		if units, ok := x["$utf16"]; ok {
			dst = append(dst, '"')
			for _, u := range units.([]any) {
				dst = append(dst, `\u`+u.(string)...)
			}
			return append(dst, '"')
		}
		dst = append(dst, '{')
		for i, key := range slices.Sorted(keysOf(x)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendWire(append(appendWire(dst, key), ':'), x[key])
		}
		return append(dst, '}')
	case []any:
		dst = append(dst, '[')
		for i, e := range x {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendWire(dst, e)
		}
		return append(dst, ']')
	default:
		b, err := json.Marshal(x)
		if err != nil {
			panic(err)
		}
		return append(dst, b...)
	}
}

func keysOf(m map[string]any) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}
}

// text returns the value as the text it is; null is "".
func (v recordedValue) text(tb testing.TB) string {
	tb.Helper()
	if len(v.wire) == 0 || string(v.wire) == "null" {
		return ""
	}
	s, err := plane.UnescapeJSON(nil, v.wire)
	if err != nil {
		tb.Fatalf("%s: %v", v.wire, err)
	}
	return string(s)
}

// frame returns the value as a frame.
func (v recordedValue) frame(tb testing.TB) plane.Frame {
	tb.Helper()
	f, err := plane.ParseFrame(v.wire)
	if err != nil {
		tb.Fatalf("%s: %v", v.wire, err)
	}
	return f
}

// lines shows frames, one a line.
func lines(frames []plane.Frame) string {
	var b []byte
	for _, f := range frames {
		b = append(plane.AppendJSON(b, f), '\n')
	}
	return string(b)
}

func open(from, seq, durable int64) plane.Frame {
	return plane.Frame{Kind: plane.KindOpen, StreamID: "m1", From: from, Seq: seq, DurableSeq: durable}
}

func chunk(from int64, text string) plane.Frame {
	return plane.Frame{Kind: plane.KindChunk, From: from, Seq: from + plane.Units(text), Text: text}
}

func durable(seq int64) plane.Frame { return plane.Frame{Kind: plane.KindDurable, Seq: seq} }

func end(seq int64, status plane.Status) plane.Frame {
	return plane.Frame{Kind: plane.KindEnd, Seq: seq, Status: status}
}

func stale(floor, durable int64) plane.Frame {
	return plane.Frame{Kind: plane.KindStale, FloorSeq: floor, DurableSeq: durable}
}

func inEpoch(epoch int64, f plane.Frame) plane.Frame {
	f.Epoch = epoch
	return f
}

// long is ASCII text that never repeats itself within ten digits.
func long(units int) string {
	var b strings.Builder
	for i := 0; b.Len() < units; i++ {
		b.WriteString(strconv.Itoa(i) + " ")
	}
	return b.String()[:units]
}
