package node_test

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/node"
)

// wantRetry reads the retry line, which comes first and once.
func wantRetry(s *socket) {
	s.tb.Helper()
	if line := s.line(); !regexp.MustCompile(`^retry: 1[0-9]{3}\n$`).MatchString(line) {
		s.tb.Fatalf("first line is %q", line)
	}
}

// eventHead is the head of an event stream, but for its date.
func eventHead(proto string) []string {
	head := []string{
		proto + " 200 OK",
		"Cache-Control: no-cache, no-transform",
		"Connection: close",
		"Content-Type: text/event-stream; charset=utf-8",
		"X-Accel-Buffering: no",
	}
	if proto == "HTTP/1.0" { // whose connections close anyway
		head = slices.Delete(head, 2, 3)
	}
	return head
}

// wantHead reads the head and fails the test unless it is that of an event
// stream and has nothing else in it: no length, no encoding, no chunks.
func wantHead(s *socket, want []string) {
	s.tb.Helper()
	got := slices.DeleteFunc(s.head(), func(line string) bool { return strings.HasPrefix(line, "Date: ") })
	slices.Sort(got[1:])
	if diff := gocmp.Diff(want, got); diff != "" {
		s.tb.Fatalf("head (-want +got):\n%s", diff)
	}
}

func TestAnEventStreamIsTheseBytes(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{}, func(t *testing.T, n *running) {
		n.open("m1")
		s := n.dial()
		s.get("HTTP/1.1", "/v1/streams/m1?from=0", "Accept: text/event-stream")
		wantHead(s, eventHead("HTTP/1.1"))
		wantRetry(s)
		// The open goes out at once, though there is no text yet.
		s.want("id: 0\ndata: {\"type\":\"open\",\"streamId\":\"m1\",\"from\":0,\"seq\":0,\"durableSeq\":0,\"ended\":false}\n\n")
		n.push("m1", 0, "Hé")
		s.want("id: 2\ndata: {\"type\":\"chunk\",\"from\":0,\"seq\":2,\"text\":\"Hé\"}\n\n")
		n.push("m1", 2, "😀<&\u2028\"\\\n")
		s.want("id: 10\ndata: {\"type\":\"chunk\",\"from\":2,\"seq\":10,\"text\":\"😀<&\u2028\\\"\\\\\\n\"}\n\n")
		n.flush("m1")
		s.want("data: {\"type\":\"durable\",\"seq\":10}\n\n")
		n.push("m1", 10, "!")
		s.want("id: 11\ndata: {\"type\":\"chunk\",\"from\":10,\"seq\":11,\"text\":\"!\"}\n\n")
		n.seal("m1")
		s.want("id: 11\ndata: {\"type\":\"end\",\"seq\":11,\"status\":\"complete\"}\n\n")
		s.wantEnd()
	})
}

func TestAnHTTP10ReaderGetsTheSameStream(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Limits: router.Limits{Ping: 50 * time.Millisecond}})
	n.open("m1")
	s := n.dial()
	s.get("HTTP/1.0", "/v1/streams/m1")
	wantHead(s, eventHead("HTTP/1.0"))
	wantRetry(s)
	s.want("id: 0\ndata: {\"type\":\"open\",\"streamId\":\"m1\",\"from\":0,\"seq\":0,\"durableSeq\":0,\"ended\":false}\n\n")
	s.want(": ping\n: ping\n")
	n.push("m1", 0, "abc")
	n.seal("m1")
	if rest := s.cutOff(); !strings.Contains(rest, `"text":"abc"`) || !strings.Contains(rest, `"type":"end"`) {
		t.Errorf("got %q", rest)
	}
}

func TestAPingIsOneCommentLineFromTheFirstSecond(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Limits: router.Limits{Ping: 100 * time.Millisecond}})
	n.open("m1")
	for _, plane := range []string{"live", "durable", "auto"} {
		s := n.dial()
		s.get("HTTP/1.1", "/v1/streams/m1?plane="+plane)
		s.head()
		s.line() // retry
		s.line() // id
		s.line() // data
		// No text has come, and none of the lines between is blank.
		s.want("\n: ping\n: ping\n: ping\n")
	}
	r := n.reads("m1", "")
	time.Sleep(250 * time.Millisecond) // pings come between the frames
	n.push("m1", 0, "text")
	n.seal("m1")
	if err := r.rest(); err != nil || r.frames != 3 {
		t.Errorf("got %d frames, %v; a standard parser sees no ping", r.frames, err)
	}
}

func TestFramesDoNotMoveTheBeatOfThePings(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Policy: eager(), Limits: router.Limits{Ping: 100 * time.Millisecond, DurablePoll: 10 * time.Millisecond}})
	n.open("m1")
	planes := []string{"live", "durable", "auto"}
	readers := make([]*socket, len(planes))
	for i, plane := range planes {
		readers[i] = n.dial()
		readers[i].get("HTTP/1.1", "/v1/streams/m1?plane="+plane)
		readers[i].head()
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := range int64(60) {
		<-tick.C
		n.push("m1", i, "x")
	}
	n.seal("m1")
	for i, plane := range planes {
		got := readers[i].cutOff()
		if pings, chunks := strings.Count(got, ": ping\n"), strings.Count(got, `"chunk"`); pings < 4 || chunks < 10 {
			t.Errorf("%s: %d pings between %d chunks", plane, pings, chunks)
		}
	}
}

func TestAllReadsHaveTheSameHead(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	n.open("fresh")
	n.open("live")
	n.push("live", 0, "some text")
	n.flush("live")
	n.whole("sealed", "some text")
	for _, read := range []struct{ state, id, line string }{
		{"before the first token", "fresh", ""},
		{"live", "live", ""},
		{"resumed", "live", "Last-Event-ID: 4"},
		{"finished", "sealed", ""},
		{"finished and resumed", "sealed", "Last-Event-ID: 4"},
	} {
		for _, plane := range []string{"auto", "live", "durable"} {
			for _, accept := range []string{"text/event-stream", "*/*"} {
				s := n.dial()
				s.get("HTTP/1.1", path(read.id)+"?plane="+plane, "Accept: "+accept, "Accept-Encoding: gzip, br",
					"X-Read: "+read.state, cmp.Or(read.line, "X-None: 1"))
				wantHead(s, eventHead("HTTP/1.1"))
				wantRetry(s)
			}
		}
	}
}

func TestAStockClientReadsWithoutCompression(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	n.open("m1")
	r := n.reads("m1", "", "Accept-Encoding", "gzip, br")
	for i := range 5 {
		n.push("m1", int64(i), "x")
		if err := r.until(int64(i) + 1); err != nil { // nothing holds a delta back
			t.Fatal(err)
		}
	}
	if enc := r.header.Get("Content-Encoding"); enc != "" {
		t.Errorf("content encoding %q", enc)
	}
}

func TestALongTextComesInFramesOfAtMost64KiB(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	text := strings.Repeat("aä漢😀", 60_000)
	n.open("m1")
	n.pumpText("m1", text)
	live, r := make(chan string, 1), n.reads("m1", "plane=live")
	go func() {
		var got strings.Builder
		r.into = &got
		if err := r.rest(); err != nil {
			t.Error(err)
		}
		live <- got.String()
	}()
	n.seal("m1")
	if <-live != text {
		t.Error("live: the text differs")
	}
	if got, _ := n.text("m1", "plane=durable"); got != text { // the transcript checks the frames
		t.Error("durable: the text differs")
	}
}

func TestAReaderThatHasAllIsToldToStayAway(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{}, func(t *testing.T, n *running) {
		n.whole("m1", "hello")
		testFinished(t, n) // it lingers
		testFinished(t, n.restart())
	})
}

// testFinished reads a sealed stream m1 "hello" from its end and beyond.
func testFinished(t *testing.T, n *running) {
	t.Helper()
	for _, plane := range []string{"auto", "durable"} {
		for _, id := range []string{"5", "5@1", "6", "99999999999999999999"} {
			a := n.do(http.MethodGet, path("m1")+"?from=0&plane="+plane, "", "Last-Event-ID", id)
			if a.status != http.StatusNoContent || a.body != "" {
				t.Errorf("plane %s, id %q: got %d %q, want 204", plane, id, a.status, a.body)
			}
		}
		for _, from := range []string{"5", "6", "99999999999999999999"} {
			text, r := n.text("m1", "from="+from+"&plane="+plane)
			if text != "" || r.from != 5 || r.end.Seq != 5 {
				t.Errorf("plane %s, from %s: got %q from %d", plane, from, text, r.from)
			}
		}
	}
}

func TestLastEventIDWinsOverFrom(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	n.whole("m1", "0123456789")
	for _, c := range []struct {
		query, id string
		want      int64
	}{
		{"from=2", "", 2}, // an empty id is none
		{"from=2", "7", 7},
		{"from=7", "2", 2},
		{"from=7", "0", 0},
		{"from=7", "abc", 7},
		{"from=7", "-3", 7},
		{"from=7", " 4", 4},
		{"from=7", "4@1", 4},
		{"from=7", "4@9", 4}, // of an epoch that this node knows nothing of: read where it is durable
		{"from=7", "4abc", 4},
		{"", "", 0},
		{"from=", "", 0},
		{"from=abc", "", 0},
		{"from=-3", "", 0},
		{"from=3.9", "", 3},
		{"from=%2B3", "", 3},
		{"from=3&from=5", "", 3},
	} {
		for _, plane := range []string{"auto", "live", "durable"} {
			header := []string{}
			if c.id != "" || c.query == "from=2" {
				header = []string{"Last-Event-ID", c.id}
			}
			if c.id == "4@9" && plane == "live" {
				continue // is absent there, as the next test shows
			}
			text, r := n.text("m1", c.query+"&plane="+plane, header...)
			if r.from != c.want || text != "0123456789"[c.want:] {
				t.Errorf("%q, id %q, plane %s: from %d %q, want %d", c.query, c.id, plane, r.from, text, c.want)
			}
		}
	}
	for _, query := range []string{"from=%zz", "from=1;plane=live", "plane=both", "plane=LIVE"} {
		wantError(t, query, n.do(http.MethodGet, path("m1")+"?"+query, ""), http.StatusBadRequest, "bad_request")
	}
}

// What it has may be newer than this node, which may be the one that is fenced.
func TestAReaderOfALaterEpochIsNotServedFromMemory(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	n.whole("m1", "0123456789")
	r := n.reads("m1", "plane=live", "Last-Event-ID", "4@9")
	if err := r.rest(); err != nil || r.end.Kind != "absent" {
		t.Errorf("told %+v, %v", r.end, err)
	}
}

func TestIDsCarryTheEpochFromTheSecondOn(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{}, func(t *testing.T, n *running) {
		n.open("m1") // epoch 1, which ends with nothing
		n.seal("m1")
		n = n.restart()
		n.open("m1")
		s := n.dial()
		s.get("HTTP/1.1", "/v1/streams/m1")
		s.head()
		wantRetry(s)
		s.want("id: 0@2\ndata: {\"type\":\"open\",\"streamId\":\"m1\",\"from\":0,\"seq\":0,\"durableSeq\":0,\"ended\":false}\n\n")
		n.push("m1", 0, "abcdef")
		s.want("id: 6@2\ndata: {\"type\":\"chunk\",\"from\":0,\"seq\":6,\"text\":\"abcdef\"}\n\n")
		n.flush("m1")
		for id, want := range map[string]int64{"3@2": 3, "3": 0, "3@1": 0} { // what an older epoch gave out is other text
			for _, plane := range []string{"auto", "live", "durable"} {
				r := n.reads("m1", "plane="+plane, "Last-Event-ID", id)
				if _, err := r.next(); err != nil || r.from != want {
					t.Errorf("id %s, plane %s: from %d, %v, want %d", id, plane, r.from, err, want)
				}
			}
		}
		n.seal("m1")
		s.want("data: {\"type\":\"durable\",\"seq\":6}\n\n")
		s.want("id: 6@2\ndata: {\"type\":\"end\",\"seq\":6,\"status\":\"complete\"}\n\n")
		if a := n.do(http.MethodGet, path("m1"), "", "Last-Event-ID", "6@2"); a.status != http.StatusNoContent {
			t.Errorf("at the end: %d", a.status)
		}
		if text, _ := n.text("m1", "", "Last-Event-ID", "6"); text != "abcdef" {
			t.Errorf("at the end of the epoch before: %q", text)
		}
	})
}

func TestEventIDsNeverFallAndChunksHaveEachTheirOwn(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	n.open("m1")
	r := n.reads("m1", "")
	var deltas strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&deltas, `{"text":"%d "}`+"\n", i%10)
	}
	a := n.do(http.MethodPost, path("m1", "pump"), deltas.String(), "Content-Type", "application/x-ndjson")
	if a.status != http.StatusOK {
		t.Fatal(a)
	}
	n.seal("m1")
	if err := r.rest(); err != nil { // each chunk begins where the one before ended, and has its end as its id
		t.Fatal(err)
	}
	whole := n.snapshot("m1").Text
	for _, id := range r.ids[:len(r.ids)-1] {
		var from int
		fmt.Sscan(id, &from)
		if rest, _ := n.text("m1", "", "Last-Event-ID", id); rest != whole[from:] {
			t.Fatalf("resumed at %s: %d units, want %d", id, len(rest), len(whole)-from)
		}
	}
}
