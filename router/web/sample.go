package web

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
)

// sample is a response in the shape that a model gives one: small deltas with
// the pause before each.
//
//go:embed sample.ndjson
var sample []byte

// delta is a line of the sample.
type delta struct {
	Pause int64  `json:"ms"`
	Text  string `json:"text"`
}

func deltas() iter.Seq2[delta, error] {
	return func(yield func(delta, error) bool) {
		lines := json.NewDecoder(bytes.NewReader(sample))
		for {
			var d delta
			err := lines.Decode(&d)
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(d, fmt.Errorf("read sample: %w", err))
				return
			}
			if !yield(d, nil) {
				return
			}
		}
	}
}

// Play yields the deltas of the sample response, each after its pause; all take
// about 17 seconds. When ctx is done it yields the cause as an error and ends.
func Play(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		timer := time.NewTimer(0)
		defer timer.Stop()
		for d, err := range deltas() {
			if err != nil {
				yield("", err)
				return
			}
			timer.Reset(time.Duration(d.Pause) * time.Millisecond)
			select {
			case <-timer.C:
			case <-ctx.Done():
				yield("", context.Cause(ctx))
				return
			}
			if !yield(d.Text, nil) {
				return
			}
		}
	}
}

// SampleText returns the whole sample response.
func SampleText() string {
	var text strings.Builder
	for d := range deltas() {
		text.WriteString(d.Text)
	}
	return text.String()
}
