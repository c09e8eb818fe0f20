package sse_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/router/sse"
)

// event is an sse.Event that outlives the next call of Next.
type event struct {
	ID, Type, Data string
	Cut            bool
}

// result is all that a stream held, and how it ended.
type result struct {
	Events []event
	LastID string
	Err    error
}

func readAll(r io.Reader, opts sse.Options) result {
	reader := sse.NewReader(r, opts)
	var res result
	for {
		ev, err := reader.Next()
		if err != nil {
			res.LastID, res.Err = reader.LastEventID(), err
			return res
		}
		res.Events = append(res.Events, event{ev.ID, ev.Type, string(ev.Data), ev.Cut})
	}
}

// pieces is a reader that ends a read at each of the cuts.
type pieces struct {
	data []byte
	at   int
	cuts []int // ascending
}

func (p *pieces) Read(b []byte) (int, error) {
	for len(p.cuts) > 0 && p.cuts[0] <= p.at {
		p.cuts = p.cuts[1:]
	}
	to := len(p.data)
	if len(p.cuts) > 0 {
		to = min(to, p.cuts[0])
	}
	if p.at == len(p.data) {
		return 0, io.EOF
	}
	n := copy(b, p.data[p.at:to])
	p.at += n
	return n, nil
}

// readEveryWay reads in as the reads of a network might bring it, and fails the
// test if that makes a difference.
func readEveryWay(t *testing.T, in []byte, opts sse.Options) result {
	t.Helper()
	equal := func(a, b error) bool { return a.Error() == b.Error() }
	want := readAll(bytes.NewReader(in), opts)
	check := func(how string, r io.Reader) {
		t.Helper()
		if diff := cmp.Diff(want, readAll(r, opts), cmp.Comparer(equal)); diff != "" {
			t.Fatalf("read %s differs (-whole +%s):\n%s", how, how, diff)
		}
	}
	check("byte by byte", iotest.OneByteReader(bytes.NewReader(in)))
	check("with data and EOF together", iotest.DataErrReader(bytes.NewReader(in)))
	for _, cut := range cutsOf(len(in)) {
		check("in two pieces", &pieces{data: in, cuts: []int{cut}})
	}
	return want
}

// cutsOf returns every place to cut n bytes in two, or a sample of them.
func cutsOf(n int) []int {
	var cuts []int
	for i := 1; i < n; i += 1 + n/300 {
		cuts = append(cuts, i)
	}
	return cuts
}

func message(data string) event { return event{Type: "message", Data: data} }

func TestReaderFollowsTheGrammar(t *testing.T) {
	tests := []struct {
		name   string
		in     string
		want   []event
		lastID string
	}{
		{name: "nothing", in: ""},
		{name: "LF", in: "data: a\n\ndata: b\n\n", want: []event{message("a"), message("b")}},
		{name: "CR", in: "data: a\r\rdata: b\r\r", want: []event{message("a"), message("b")}},
		{name: "CR LF", in: "data: a\r\n\r\ndata: b\r\n\r\n", want: []event{message("a"), message("b")}},
		{name: "mixed ends", in: "data: a\r\n\ndata: b\n\r\ndata: c\r\r\ndata: d\n\r", want: []event{message("a"), message("b"), message("c"), message("d")}},
		{name: "CR LF inside an event", in: "data: a\r\ndata: b\rdata: c\n\n", want: []event{message("a\nb\nc")}},
		{name: "one byte order mark is dropped", in: "\uFEFFdata: a\n\n", want: []event{message("a")}},
		{name: "two are not", in: "\uFEFF\uFEFFdata: a\n\ndata: b\n\n", want: []event{message("b")}},
		{name: "a mark inside stays", in: "data: \uFEFFa\n\n", want: []event{message("\uFEFFa")}},
		{name: "half a mark is a name", in: "\xEF\xBBdata: a\n\ndata: b\n\n", want: []event{message("b")}},
		{name: "a mark alone", in: "\uFEFF"},
		{name: "a blank after the colon is dropped, one only", in: "data:  a\n\ndata:b\n\ndata:\tc\n\n", want: []event{message(" a"), message("b"), message("\tc")}},
		{name: "comments", in: ": x\n\n:\n\n:data: no\ndata: a\n: y\ndata: b\n\n", want: []event{message("a\nb")}},
		{name: "fields without data give no event", in: "id: 1\n\nevent: x\n\nretry: 5\n\n", lastID: "1"},
		{name: "the event type is of its block", in: "event: x\n\ndata: a\n\nevent: y\ndata: b\n\n", want: []event{message("a"), {Type: "y", Data: "b"}}},
		{name: "the last type counts", in: "event: x\nevent: y\ndata: b\n\n", want: []event{{Type: "y", Data: "b"}}},
		{name: "an empty type is message", in: "event: x\nevent:\ndata: b\n\n", want: []event{message("b")}},
		{name: "empty data is data", in: "data\n\ndata:\n\ndata\ndata\n\n", want: []event{message(""), message(""), message("\n")}},
		{name: "ids stay", in: "id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", want: []event{{"1", "message", "a", false}, {"1", "message", "b", false}, message("c")}},
		{name: "an id with NUL is none", in: "id: 1\ndata: a\n\nid: 2\x00\ndata: b\n\n", want: []event{{"1", "message", "a", false}, {"1", "message", "b", false}}, lastID: "1"},
		{name: "an id without data is kept", in: "id: 7\n\ndata: a\n\n", want: []event{{"7", "message", "a", false}}, lastID: "7"},
		{name: "names are case-sensitive and whole", in: "Data: a\ndatax: b\n data: c\nda: d\ndata : e\n\n"},
		{name: "a block cut before its blank line is dropped", in: "data: a\n\nid: 9\ndata: b\n", want: []event{message("a")}},
		{name: "so is one cut in a line", in: "data: a\n\ndata: b", want: []event{message("a")}},
		{name: "a CR ends a line at once", in: "data: a\n\r", want: []event{message("a")}},
		{name: "invalid UTF-8 stays", in: "data: \xFF\xED\xA0\xBD\n\n", want: []event{message("\xFF\xED\xA0\xBD")}},
		{name: "other separators are text", in: "data: a\v\f\u0085\u2028b\n\n", want: []event{message("a\v\f\u0085\u2028b")}},
		{name: "colons in the value", in: "data: a: b:\ndata::\n\n", want: []event{message("a: b:\n:")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := readEveryWay(t, []byte(tt.in), sse.Options{})
			if diff := cmp.Diff(tt.want, got.Events); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if got.LastID != tt.lastID || got.Err != io.EOF {
				t.Errorf("last id %q, error %v; want %q, EOF", got.LastID, got.Err, tt.lastID)
			}
			if model := modelEvents(tt.in); !cmp.Equal(model, tt.want) {
				t.Errorf("the test's own model says %v", model)
			}
		})
	}
}

func TestFinalHandsOverTheCutBlock(t *testing.T) {
	tests := []struct {
		name, in string
		want     []event
	}{
		{"cut before its blank line", "data: a\n\ndata: b\n", []event{message("a"), {Type: "message", Data: "b", Cut: true}}},
		{"cut in a line", "id: 4\ndata: b\ndata: c", []event{{"4", "message", "b\nc", true}}},
		{"cut after a CR", "data: b\r", []event{{Type: "message", Data: "b", Cut: true}}},
		{"cut in a field's name", "data: b\ndat", []event{{Type: "message", Data: "b", Cut: true}}},
		{"without data", "id: 1\nevent: x", nil},
		{"whole", "data: b\n\n", []event{message("b")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := readEveryWay(t, []byte(tt.in), sse.Options{Final: true})
			if diff := cmp.Diff(tt.want, got.Events); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLimitBoundsALine(t *testing.T) {
	const limit = 100
	fits := strings.Repeat("x", limit-len("data: "))
	tests := []struct {
		name, in string
		want     int // events before the error
		err      error
	}{
		{"a line of just the limit", "data: " + fits + "\n\n", 1, io.EOF},
		{"one byte more", "data: a\n\ndata: " + fits + "x\n\n", 1, sse.ErrTooLong},
		{"a line that never ends", "data: a\n\n" + strings.Repeat("x", 100*limit), 1, sse.ErrTooLong},
		{"a comment", ":" + strings.Repeat("x", limit) + "\n", 0, sse.ErrTooLong},
		{"many lines of one event", strings.Repeat("data: 123456789\n", 10) + "\n", 1, io.EOF},
		{"too many lines of one event", strings.Repeat("data: 123456789\n", 11) + "\n", 0, sse.ErrTooLong},
		{"too many empty lines of one event", strings.Repeat("data\n", limit+2) + "\n", 0, sse.ErrTooLong},
	}
	for _, tt := range tests {
		for _, final := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				got := readEveryWay(t, []byte(tt.in), sse.Options{Limit: limit, Final: final})
				if len(got.Events) != tt.want || !errors.Is(got.Err, tt.err) {
					t.Errorf("%d events and %v, want %d and %v", len(got.Events), got.Err, tt.want, tt.err)
				}
			})
		}
	}
}

// endless is a line that does not end, and counts what is taken of it.
type endless struct{ taken int }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	e.taken += len(b)
	return len(b), nil
}

func TestReaderStopsReadingAtTheLimit(t *testing.T) {
	const limit = 1 << 20
	src := new(endless)
	if _, err := sse.NewReader(src, sse.Options{Limit: limit}).Next(); !errors.Is(err, sse.ErrTooLong) {
		t.Fatalf("error %v, want ErrTooLong", err)
	}
	if src.taken > limit+64<<10 {
		t.Errorf("took %d bytes for a limit of %d", src.taken, limit)
	}
}

func TestLongLinesInSmallReads(t *testing.T) {
	long := strings.Repeat("0123456789", 130_000)
	in := "data: a\r\rdata: " + long + "\r\rdata: b\n\n"
	want := []event{message("a"), message(long), message("b")}
	for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in))} {
		if got := readAll(r, sse.Options{}); !cmp.Equal(got.Events, want) {
			t.Errorf("%d events, %v", len(got.Events), got.Err)
		}
	}
}

func TestReaderReportsWhatTheInputSaid(t *testing.T) {
	broken := errors.New("connection reset")
	in := io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken))
	r := sse.NewReader(in, sse.Options{})
	if ev, err := r.Next(); err != nil || string(ev.Data) != "a" {
		t.Fatalf("first event %q, %v", ev.Data, err)
	}
	for range 2 {
		if _, err := r.Next(); err != broken {
			t.Errorf("error %v, want the input's", err)
		}
	}
}

type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }

func TestReaderGivesUpOnAnInputWithoutProgress(t *testing.T) {
	if _, err := sse.NewReader(silent{}, sse.Options{}).Next(); err != io.ErrNoProgress {
		t.Errorf("error %v, want io.ErrNoProgress", err)
	}
}

// An event is there as soon as its blank line is, even if that ends in a CR
// that an LF may follow.
func TestReaderDoesNotWaitForMoreThanItsEvent(t *testing.T) {
	for _, in := range []string{"data: a\n\n", "data: a\r\r", "data: a\r\n\r"} {
		pr, pw := io.Pipe()
		go func() { _, _ = pw.Write([]byte(in)) }()
		ev, err := sse.NewReader(pr, sse.Options{}).Next()
		if err != nil || string(ev.Data) != "a" {
			t.Errorf("%q: %q, %v", in, ev.Data, err)
		}
		pr.Close()
	}
}

func TestRetryIsDigitsOnly(t *testing.T) {
	tests := []struct {
		in   string
		want time.Duration
		ok   bool
	}{
		{"retry: 3000\n", 3 * time.Second, true},
		{"retry:0\n", 0, true},
		{"retry: 10\nretry: x\nretry: -1\nretry: 1.5\nretry:  5\nretry\n", 10 * time.Millisecond, true},
		{"retry: 99999999999999999999999\n", 0, false},
		{"retry: 9999999999\n", 0, false}, // over a day
		{"data: a\n", 0, false},
	}
	for _, tt := range tests {
		r := sse.NewReader(strings.NewReader(tt.in), sse.Options{})
		if _, err := r.Next(); err != io.EOF {
			t.Fatalf("%q: %v", tt.in, err)
		}
		if got, ok := r.Retry(); got != tt.want || ok != tt.ok {
			t.Errorf("%q: %v, %v; want %v, %v", tt.in, got, ok, tt.want, tt.ok)
		}
	}
}

func TestMetadataOnlyAndSplitEvents(t *testing.T) {
	in, err := os.ReadFile("testdata/fields.sse")
	if err != nil {
		t.Fatal(err)
	}
	got := readEveryWay(t, in, sse.Options{})
	if len(got.Events) != 7 { // two without content, A to D, and [DONE]
		t.Fatalf("%d events, want 7: %+v", len(got.Events), got.Events)
	}
	for i, want := range []struct{ id, part string }{
		{"7", ""}, {"7", ""}, {"7", `"A"`}, {"8", `"B"`}, {"8", "\n\"content\": \"C\"\n"}, {"8", `"D"`}, {"9", "[DONE]"},
	} {
		if ev := got.Events[i]; ev.ID != want.id || ev.Type != "message" || !strings.Contains(ev.Data, want.part) {
			t.Errorf("event %d is %+v, want id %s and %s in it", i, ev, want.id, want.part)
		}
	}
}

func TestCommentsGiveNoEvent(t *testing.T) {
	in, err := os.ReadFile("testdata/comments.sse")
	if err != nil {
		t.Fatal(err)
	}
	want := []event{
		{"5", "chunk", `{"t":"hello"}`, false},
		{"6", "chunk", `{"t":"!"}`, false},
		{"6", "end", "{}", false},
	}
	if diff := cmp.Diff(want, readEveryWay(t, in, sse.Options{}).Events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestReadingAllocatesNothingForAnEvent(t *testing.T) {
	in := strings.Repeat("id: 5\nevent: x\ndata: 0123456789\n\n: ping\n", 2000)
	r := sse.NewReader(strings.NewReader(in), sse.Options{})
	allocs := testing.AllocsPerRun(1000, func() {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations an event, want none", allocs)
	}
}

func BenchmarkReader(b *testing.B) {
	in := []byte(strings.Repeat("id: 1234\ndata: {\"type\":\"chunk\",\"from\":1230,\"seq\":1234,\"text\":\"word\"}\n\n", 1000))
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		r := sse.NewReader(bytes.NewReader(in), sse.Options{})
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
	}
}
