package router

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/sse"
)

// sending is two, whose other node answers each request so.
type sending struct {
	two
	epoch string
	body  io.Reader
}

func (s sending) Do(context.Context, string, *http.Request) (*http.Response, error) {
	h := http.Header{epochHeader: {s.epoch}}
	return &http.Response{StatusCode: http.StatusOK, Header: h, Body: io.NopCloser(s.body)}, nil
}

// endless is text without an end, which counts what was read of it.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	e.read += len(p)
	return len(p), nil
}

func TestAFrameOfAnotherNodeIsBounded(t *testing.T) {
	largest := plane.Frame{Kind: plane.KindChunk, Seq: plane.MaxChunk, Text: strings.Repeat("\x01", plane.MaxChunk), Epoch: 2}
	r := oneOfTwo(t, Config{})
	for name, begin := range map[string]string{
		"one line": "data: ", "an id": "id: ", "many lines": strings.Repeat("data: "+strings.Repeat("x", 1000)+"\n", 1000), "a field": "",
	} {
		var after endless
		r.cfg.Cluster = sending{epoch: "2", body: io.MultiReader(
			strings.NewReader(string(sse.Append(nil, largest))), strings.NewReader(begin), &after)}
		s, epoch, err := r.Attach(t.Context(), "m1", 0, 0)
		if err != nil || epoch != 2 {
			t.Fatalf("%s: epoch %d, %v", name, epoch, err)
		}
		if f, err := s.Next(t.Context()); err != nil || f.Text != largest.Text || f.Epoch != 2 {
			t.Errorf("%s: the largest frame: %d bytes, epoch %d, %v", name, len(f.Text), f.Epoch, err)
		}
		if _, err := s.Next(t.Context()); !errors.Is(err, sse.ErrTooLong) {
			t.Errorf("%s: %v", name, err)
		}
		if after.read > 2*maxEvent {
			t.Errorf("%s: read %d bytes more", name, after.read)
		}
	}
}

func TestAnEpochThatIsNoneIsNotKnown(t *testing.T) {
	r := oneOfTwo(t, Config{})
	for _, epoch := range []string{"", "-1", "two", "99999999999999999999"} {
		r.cfg.Cluster = sending{epoch: epoch, body: strings.NewReader("")}
		if _, at, err := r.Attach(t.Context(), "m1", 0, 0); err != nil || at != 0 {
			t.Errorf("%q: epoch %d, %v", epoch, at, err)
		}
	}
}
