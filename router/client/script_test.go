package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/wire"
)

// script is a server that answers each request as is written, without a
// network: time in its tests is virtual.
type script struct {
	answers []answer
	asked   []string    // the query of each request
	at      []time.Time // and when it came
	path    string      // of the last one
	open    int         // bodies that were not closed
}

// answer is one response. Its body ends where it is written to, unless it hangs.
type answer struct {
	refused bool // no connection
	status  int  // 200 if 0
	kind    string
	body    string
	hang    bool
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	s.asked, s.at = append(s.asked, req.URL.Query().Get("from")), append(s.at, time.Now())
	s.path = req.URL.EscapedPath()
	a := s.answers[min(len(s.asked), len(s.answers))-1]
	if a.refused {
		return nil, errors.New("connection refused")
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	if a.kind == "" {
		a.kind = "text/event-stream; charset=utf-8"
	}
	s.open++
	body := &scripted{ctx: req.Context(), rest: strings.NewReader(a.body), hang: a.hang, close: func() { s.open-- }}
	return &http.Response{StatusCode: a.status, Header: http.Header{"Content-Type": {a.kind}}, Body: body, Request: req}, nil
}

type scripted struct {
	ctx   context.Context
	rest  *strings.Reader
	hang  bool
	close func()
}

func (b *scripted) Read(p []byte) (int, error) {
	if b.rest.Len() > 0 || !b.hang {
		return b.rest.Read(p)
	}
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

func (b *scripted) Close() error { b.close(); return nil }

func (s *script) client(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	if cfg.Server == "" {
		cfg.Server = "http://node"
	}
	cfg.HTTP = &http.Client{Transport: s}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// event is the bytes of one event; id may be "".
func event(id, data string) string {
	if id != "" {
		id = "id: " + id + "\n"
	}
	return id + "data: " + data + "\n\n"
}

func opening(id string, from int64) string {
	return event(id, fmt.Sprintf(`{"type":"open","streamId":"m","from":%d,"seq":9,"durableSeq":0,"ended":false}`, from))
}

func chunk(id string, from int64, text string) string {
	return event(id, fmt.Sprintf(`{"type":"chunk","from":%d,"seq":%d,"text":%q}`, from, from+plane.Units(text), text))
}

func ending(id string, seq int64) string {
	return event(id, fmt.Sprintf(`{"type":"end","seq":%d,"status":"complete"}`, seq))
}

// said is what a reader was given, for comparison.
func said(frames []plane.Frame) []string {
	var out []string
	for _, f := range frames {
		out = append(out, strings.Join(strings.Fields(fmt.Sprintf("%s %d-%d %s", f.Kind, f.From, f.Seq, f.Text)), " "))
	}
	return out
}

// After a connection that goes wrong comes one that is good, from where the
// reader is. What it was given of both is one legal subscription.
func TestFollowDoesNotTrustWhatBreaksTheRules(t *testing.T) {
	begin := opening("0", 0) + chunk("3", 0, "abc")
	for name, tt := range map[string]struct {
		bad  string
		from string // what the next request asks for; "3" if ""
	}{
		"closed in the middle":            {bad: begin},
		"closed within an event":          {bad: begin + "id: 6\ndata: {\"type\":\"chunk\",\"from\":3,\"seq\":6,\"text\":\"de"},
		"an event that is not JSON":       {bad: begin + event("6", "<html>")},
		"a chunk past the end":            {bad: begin + chunk("8", 5, "xyz")},
		"a chunk that spans less":         {bad: begin + event("9", `{"type":"chunk","from":3,"seq":9,"text":"x"}`)},
		"a chunk without text":            {bad: begin + event("6", `{"type":"chunk","from":3,"seq":6}`)},
		"a repeat of other text":          {bad: begin + chunk("6", 1, "XXXXX")},
		"an end past the text":            {bad: begin + ending("9", 9)},
		"an end of unknown status":        {bad: begin + event("3", `{"type":"end","seq":3,"status":7}`)},
		"another stream's open":           {bad: begin + event("0", `{"type":"open","streamId":"x","from":0,"seq":0,"durableSeq":0,"ended":false}`)},
		"an open past the text":           {bad: begin + opening("7", 7)},
		"a frame of an unknown type":      {bad: begin + event("", `{"type":"burst"}`)},
		"another epoch without an open":   {bad: begin + chunk("6@2", 3, "def")},
		"stale where none can be":         {bad: begin + event("", `{"type":"stale","floorSeq":0,"durableSeq":0}`)},
		"absent where none can be":        {bad: begin + event("", `{"type":"absent"}`)},
		"a line that does not end":        {bad: begin + "data: " + strings.Repeat("x", 17<<20)},
		"nothing at all":                  {bad: "", from: "0"},
		"an open of another stream first": {bad: event("0", `{"type":"open","streamId":"x","from":0,"seq":0,"durableSeq":0,"ended":false}`), from: "0"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				good := opening("3", 3) + chunk("6", 3, "def") + ending("6", 6)
				if tt.from == "" {
					tt.from = "3"
				} else {
					good = begin + good
				}
				s := &script{answers: []answer{{body: tt.bad}, {body: good, hang: true}}}
				var lost []error
				got := follow(t.Context(), s.client(t, client.Config{Lost: func(id string, why error) { lost = append(lost, why) }}), "m", 0, "")
				want := []string{"open 0-9", "chunk 0-3 abc", "chunk 3-6 def", "end 0-6"}
				if diff := cmp.Diff(want, said(got.frames)); diff != "" || got.err != nil {
					t.Errorf("%v (-want +got):\n%s", got.err, diff)
				}
				if diff := cmp.Diff([]string{"0", tt.from}, s.asked); diff != "" || len(lost) != 1 || s.open != 0 {
					t.Errorf("lost %v, %d bodies open, asked (-want +got):\n%s", lost, s.open, diff)
				}
			})
		})
	}
}

func TestFollowIsTakenBackByAnOpenBelow(t *testing.T) {
	for name, tt := range map[string]struct {
		answers []answer
		asked   []string
		want    []string
	}{
		"on another connection": {
			[]answer{
				{body: opening("0", 0) + chunk("6", 0, "abcdef")},
				{body: opening("3@2", 3) + chunk("5@2", 3, "XY")},
				{body: opening("5@2", 5) + ending("5@2", 5)},
			},
			[]string{"0", "6", "5@2"},
			[]string{"open 0-9", "chunk 0-6 abcdef", "open 3-9", "chunk 3-5 XY", "end 0-5"},
		},
		"on the same": {
			[]answer{{body: opening("0", 0) + chunk("6", 0, "abcdef") + opening("2@2", 2) + chunk("4@2", 2, "XY") + ending("4@2", 4)}},
			[]string{"0"},
			[]string{"open 0-9", "chunk 0-6 abcdef", "open 2-9", "chunk 2-4 XY", "end 0-4"},
		},
		"and not by one at its position": {
			[]answer{{body: opening("0", 0) + chunk("3", 0, "abc") + opening("3", 3) + chunk("5", 1, "bcde") + chunk("5", 0, "abcde") + ending("5", 5)}},
			[]string{"0"},
			[]string{"open 0-9", "chunk 0-3 abc", "chunk 3-5 de", "end 0-5"},
		},
		"that was lost on its way": {
			[]answer{
				{body: opening("0@2", 0) + chunk("3@2", 0, "abc") + "id: 1@3\ndata: {\"type\":\"op"},
				{body: opening("1@3", 1) + ending("1@3", 1)},
			},
			[]string{"0", "3@2"},
			[]string{"open 0-9", "chunk 0-3 abc", "open 1-9", "end 0-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: tt.answers}
				got := follow(t.Context(), s.client(t, client.Config{}), "m", 0, "auto")
				if diff := cmp.Diff(tt.want, said(got.frames)); diff != "" || got.err != nil {
					t.Errorf("%v (-want +got):\n%s", got.err, diff)
				}
				if diff := cmp.Diff(tt.asked, s.asked); diff != "" {
					t.Errorf("asked (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestFollowTellsRefusalsFromFailures(t *testing.T) {
	good := answer{body: opening("0", 0) + ending("0", 0)}
	refusal := func(err error) answer {
		e := wire.FromError(err)
		return answer{status: e.Status, kind: "application/json", body: fmt.Sprintf(`{"error":{"code":%q,"message":%q}}`, e.Code, e.Message)}
	}
	for name, tt := range map[string]struct {
		first answer
		final error // nil: it is tried again
	}{
		"no connection":        {answer{refused: true}, nil},
		"draining":             {refusal(plane.ErrDraining), nil},
		"as many as it may":    {refusal(wire.ErrUnavailable), nil},
		"broken":               {refusal(wire.ErrInternal), nil},
		"a proxy without node": {answer{status: 502, kind: "text/html", body: "<html>"}, nil},
		"too many requests":    {answer{status: 429}, nil},
		"not found":            {refusal(plane.ErrNotFound), plane.ErrNotFound},
		"not allowed":          {refusal(plane.ErrDenied), plane.ErrDenied},
		"no token":             {refusal(wire.ErrUnauthorized), wire.ErrUnauthorized},
		"a bad request":        {refusal(wire.ErrBadRequest), wire.ErrBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: []answer{tt.first, good}}
				got := follow(t.Context(), s.client(t, client.Config{}), "m", 0, "")
				if !errors.Is(got.err, tt.final) || s.open != 0 {
					t.Errorf("%v, %d bodies open, want %v", got.err, s.open, tt.final)
				}
				if tries := len(s.asked); (tt.final == nil) != (tries == 2) {
					t.Errorf("%d tries", tries)
				}
			})
		})
	}
}

func TestFollowWaitsLongerEachTimeUpToABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: make([]answer, 12)}
		for i := range 10 {
			s.answers[i].refused = true
		}
		s.answers[10].body = opening("0", 0) + chunk("3", 0, "abc")
		s.answers[11].body = opening("3", 3) + ending("3", 3)
		got := follow(t.Context(), s.client(t, client.Config{}), "m", 0, "")
		if got.err != nil || got.text() != "abc" {
			t.Fatalf("%q, %v", got.text(), got.err)
		}
		most := 100 * time.Millisecond
		for i := range 10 {
			if d := s.at[i+1].Sub(s.at[i]); d < most/2 || d > most {
				t.Errorf("delay %d: %v, want %v to %v", i, d, most/2, most)
			}
			most = min(2*most, 5*time.Second)
		}
		if d := s.at[11].Sub(s.at[10]); d > 100*time.Millisecond {
			t.Errorf("after a connection that was good the delay is %v", d)
		}
	})
}

func TestFollowGivesUpSilenceButNotAQuietStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []answer{
			{hang: true}, // nothing comes at all
			{body: opening("0", 0) + chunk("3", 0, "abc") + ": ping\n", hang: true},
			{status: 503, body: `{"error":`, hang: true},
			{body: opening("3", 3) + ending("3", 3)},
		}}
		var lost []string
		c := s.client(t, client.Config{Lost: func(_ string, why error) { lost = append(lost, why.Error()) }})
		var got reading
		for f, err := range c.Follow(t.Context(), "m", 0, "") {
			if err != nil {
				t.Fatal(err)
			}
			got.take(f, 0)
			time.Sleep(10 * time.Minute) // a slow reader is not a silent server
		}
		if diff := cmp.Diff([]string{"the server is silent", "the server is silent", "the server is silent"}, lost); diff != "" {
			t.Errorf("lost (-want +got):\n%s", diff)
		}
		for i, d := range []time.Duration{45 * time.Second, 45*time.Second + 20*time.Minute, 45 * time.Second} {
			if took := s.at[i+1].Sub(s.at[i]); took < d || took > d+100*time.Millisecond {
				t.Errorf("connection %d was given up after %v, want %v", i, took, d)
			}
		}
		if got.text() != "abc" || got.wrong != nil {
			t.Errorf("%q, %v", got.text(), got.wrong)
		}
	})
}

func TestFollowEndsWithItsContextAlsoBetweenConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []answer{{refused: true}}}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, errors.New("an hour is enough"))
		defer cancel()
		got := follow(ctx, s.client(t, client.Config{}), "m", 0, "")
		if got.err == nil || got.err.Error() != "an hour is enough" {
			t.Errorf("%v", got.err)
		}
		if n := len(s.asked); n < 700 || n > 1500 {
			t.Errorf("%d tries in an hour", n)
		}
	})
}
