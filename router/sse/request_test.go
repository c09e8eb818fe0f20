package sse_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/sse"
)

// requestCase is a case of testdata/request.json.
type requestCase struct {
	Name    string
	Verdict string
	URL     string
	Headers map[string]string
	Out     struct {
		StreamID string
		From     int64
		Error    string
	}
}

// otherwise are the requests that we read in another way than was recorded,
// all of them.
var otherwise = map[string]struct {
	why  string
	want int64
	err  error
}{
	"header-garbage-beats-url": {"an id that is no number is none: from counts", 10, nil},
	"header-negative":          {"an id that is no number is none: from counts", 10, nil},
	"header-big":               {"past the largest offset is at the largest, which the owner clamps", plane.MaxOffset, nil},
	"id-bad-percent":           {"a broken escape is refused", 0, sse.ErrBadQuery},
	"semicolon-is-text":        {"a semicolon is refused, since others take it for a separator", 0, sse.ErrBadQuery},
	"relative-url":             {"requests of a Go server are relative", 0, nil},
}

func TestRequestsAreReadAsRecorded(t *testing.T) {
	used := 0
	for _, c := range loadRecorded[requestCase](t, "request.json") {
		t.Run(c.Name, func(t *testing.T) {
			want, wantErr := c.Out.From, error(nil)
			if o, ok := otherwise[c.Name]; ok {
				used++
				want, wantErr = o.want, o.err
			} else if c.Verdict != "keep" || c.Out.Error != "" {
				t.Fatalf("verdict %s, error %s, and no way of ours for it", c.Verdict, c.Out.Error)
			}
			got, err := sse.ParseRequest(request(t, c.URL, c.Headers))
			if got.Offset != want || !errors.Is(err, wantErr) {
				t.Errorf("%d, %v; want %d, %v", got.Offset, err, want, wantErr)
			}
		})
	}
	if used != len(otherwise) {
		t.Errorf("%d of %d differences used", used, len(otherwise))
	}
}

func request(t *testing.T, rawURL string, headers map[string]string) *http.Request {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	r := &http.Request{URL: u, Header: http.Header{}}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	return r
}

func TestALastEventIDWinsIfItHoldsANumber(t *testing.T) {
	const none = "\x00" // no header
	tests := []struct {
		id, query string
		want      sse.Position
	}{
		{none, "", sse.Position{}},
		{none, "from=", sse.Position{}},
		{none, "from=abc", sse.Position{}},
		{none, "from=-7", sse.Position{}},
		{none, "from=10", sse.Position{Offset: 10, Epoch: 1}},
		{none, "from=10@3", sse.Position{Offset: 10, Epoch: 3}},
		{none, "from=99999999999999999999", sse.Position{Offset: plane.MaxOffset, Epoch: 1}},
		{"", "from=10", sse.Position{Offset: 10, Epoch: 1}},
		{" ", "from=10", sse.Position{Offset: 10, Epoch: 1}},
		{"abc", "from=10", sse.Position{Offset: 10, Epoch: 1}},
		{"-7", "from=10", sse.Position{Offset: 10, Epoch: 1}},
		{"@2", "from=10", sse.Position{Offset: 10, Epoch: 1}},
		{"undefined", "", sse.Position{}},
		{"0", "from=10", sse.Position{Epoch: 1, Resumed: true}},
		{"4", "from=10", sse.Position{Offset: 4, Epoch: 1, Resumed: true}},
		{"12@2", "from=10", sse.Position{Offset: 12, Epoch: 2, Resumed: true}},
		{"12@2x", "", sse.Position{Offset: 12, Epoch: 2, Resumed: true}},
		{"12abc", "", sse.Position{Offset: 12, Epoch: 1, Resumed: true}},
	}
	for _, tt := range tests {
		headers := map[string]string{}
		if tt.id != none {
			headers["last-event-id"] = tt.id
		}
		got, err := sse.ParseRequest(request(t, "/v1/streams/m?"+tt.query, headers))
		if got != tt.want || err != nil {
			t.Errorf("id %q, %s: %+v, %v; want %+v", tt.id, tt.query, got, err, tt.want)
		}
	}
}

func TestABadQueryIsNotRepeated(t *testing.T) {
	_, err := sse.ParseRequest(request(t, "/v1/streams/m?access_token=canary%zz", nil))
	if !errors.Is(err, sse.ErrBadQuery) || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "zz") {
		t.Errorf("%v, want an ErrBadQuery that tells nothing of the query", err)
	}
}
