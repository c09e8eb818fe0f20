package router

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/peer"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store/storetest"
)

// others are the members that n/1 asks: n/2 first, as the ring has it.
type others struct {
	two
	hints map[string]string // whom a member answers has the stream; itself if none
	dead  map[string]bool
	busy  bool     // who has it answers 503
	moves bool     // it goes from who has it to n/4 as soon as that is known
	asked []string // since they were last asked for
	last  *http.Request
}

func (o *others) Has(string) bool        { return true }
func (o *others) Takers(string) []string { return nil }
func (o *others) Waits(string) bool      { return false }
func (o *others) Digest() string         { return "of n/1's ring" }

func (o *others) Do(_ context.Context, member string, req *http.Request) (*http.Response, error) {
	o.asked, o.last = append(o.asked, member), req
	if o.dead[member] {
		return nil, peer.ErrUnreachable
	}
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
	}
	w := httptest.NewRecorder()
	hint := o.hints[member]
	if o.moves && !strings.HasSuffix(req.URL.Path, "/where") {
		hint = "n/4"
	}
	switch {
	case hint != "":
		w.Header().Set(hostHeader, hint)
		w.WriteHeader(http.StatusMisdirectedRequest)
	case o.busy:
		w.Header().Set("Retry-After", "7")
		w.Header().Set("Content-Type", typeJSON)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.WriteString(`{"error":{"code":"unavailable","message":"full"}}`)
	case strings.HasSuffix(req.URL.Path, "/where"):
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set(epochHeader, "3")
		_, _ = w.WriteString("{}")
	}
	return w.Result(), nil
}

// take answers who was asked.
func (o *others) take() []string {
	asked := o.asked
	o.asked = nil
	return asked
}

// toOwner is all that goes to a stream's owner.
var toOwner = []string{"open", "append", "pump", "flush", "close", "fail", "attach"}

// request asks for a stream that is elsewhere.
func request(r *Router, route string) (status int, retry string) {
	if route == "attach" {
		source, _, err := r.Attach(context.Background(), "m1", 0, 0)
		switch {
		case errors.Is(err, wire.ErrUnavailable):
			return http.StatusServiceUnavailable, retryAfter // as it would be answered
		case err != nil:
			return http.StatusInternalServerError, ""
		}
		_ = source.Close()
		return http.StatusOK, ""
	}
	path := "/v1/streams/m1"
	if route != "open" {
		path += "/" + route
	}
	body := ""
	if route == "append" || route == "pump" {
		body = "text"
	}
	w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	req.Host = "localhost"
	req.Header.Set("Content-Type", "text/plain")
	r.ServeHTTP(w, req)
	return w.Code, w.Header().Get("Retry-After")
}

func TestARequestIsSentToTwoMembersAtMostAndNeverInACircle(t *testing.T) {
	for _, route := range toOwner {
		for name, tt := range map[string]struct {
			hints map[string]string
			asked []string
			fails bool
		}{
			"the first has it":        {nil, []string{"n/2"}, false},
			"the first says who":      {map[string]string{"n/2": "n/3"}, []string{"n/2", "n/3"}, false},
			"a third would be needed": {map[string]string{"n/2": "n/3", "n/3": "n/4"}, []string{"n/2", "n/3"}, true},
			"back to n/1, who asks":   {map[string]string{"n/2": "n/1"}, []string{"n/2"}, true},
			"the second to n/1":       {map[string]string{"n/2": "n/3", "n/3": "n/1"}, []string{"n/2", "n/3"}, true},
			"to itself":               {map[string]string{"n/2": "n/2"}, []string{"n/2"}, true},
			"back to the first":       {map[string]string{"n/2": "n/3", "n/3": "n/2"}, []string{"n/2", "n/3"}, true},
		} {
			o := &others{hints: tt.hints}
			r := oneOf(t, o)
			r.cfg.Store.(*storetest.Memory).Edit("m1", func(row *storetest.Row) { // as who sends back has read it
				row.Status, row.Token, row.Epoch = plane.StatusStreaming, "n/1/1", 1
			})
			status, retry := request(r, route)
			if route == "pump" && !tt.fails { // it was found, and then sent there
				tt.asked = append(slices.Clone(tt.asked), tt.asked[len(tt.asked)-1])
			}
			if asked := o.take(); !slices.Equal(asked, tt.asked) {
				t.Errorf("%s, %s: asked %v, want %v", route, name, asked, tt.asked)
			}
			want := http.StatusOK
			switch here := strings.Contains(name, "n/1"); {
			case here && route == "open": // what was sent back is served here, if it can be
				want, tt.fails = http.StatusCreated, false
			case tt.fails:
				want = http.StatusServiceUnavailable
			}
			if status != want || tt.fails && retry == "" {
				t.Errorf("%s, %s: answered %d, to be tried again after %q", route, name, status, retry)
			}
		}
	}
}

func TestAnOwnerThatCannotBeReachedIsToBeAskedAgain(t *testing.T) {
	for _, route := range toOwner {
		o := &others{dead: map[string]bool{"n/2": true}}
		if status, retry := request(oneOf(t, o), route); status != http.StatusServiceUnavailable || retry == "" {
			t.Errorf("%s: answered %d, to be tried again after %q", route, status, retry)
		}
		if asked := o.take(); !slices.Equal(asked, []string{"n/2"}) {
			t.Errorf("%s: asked %v", route, asked)
		}
	}
}

func TestAnAttachIsForTheTextThatIsLacking(t *testing.T) {
	for _, tt := range []struct {
		from, epoch int64
		id          string
	}{{0, 0, "0"}, {7, 0, "7"}, {7, 1, "7"}, {7, 2, "7@2"}} {
		o := new(others)
		source, epoch, err := oneOf(t, o).Attach(t.Context(), "a/b", tt.from, tt.epoch)
		if err != nil || epoch != 3 {
			t.Fatalf("attached in epoch %d, %v", epoch, err)
		}
		_ = source.Close()
		if id := o.last.Header.Get("Last-Event-ID"); id != tt.id || o.last.URL.RequestURI() != "/v1/streams/a%2Fb?plane=live" {
			t.Errorf("%d in epoch %d: asked for %s from %q", tt.from, tt.epoch, o.last.URL, id)
		}
		if ring := o.last.Header.Get(ringHeader); ring != o.Digest() {
			t.Errorf("it is told of the ring %q", ring)
		}
	}
}

func TestWhatTheOwnerAnswersIsPassedOn(t *testing.T) {
	for _, route := range []string{"open", "append", "flush", "close", "fail"} {
		r := oneOf(t, &others{busy: true})
		if status, retry := request(r, route); status != http.StatusServiceUnavailable || retry != "7" {
			t.Errorf("%s: answered %d, to be tried again after %q", route, status, retry)
		}
	}
}

// Its producer is not told that somebody else streams it, which would end it.
func TestAPumpWhoseStreamGoesOnWhileItIsSentIsToBeginAgain(t *testing.T) {
	for query, want := range map[string]string{"?from=7": `"moved"`, "": `"unavailable"`} {
		r := oneOf(t, &others{moves: true})
		w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/streams/m1/pump"+query, strings.NewReader("text"))
		req.Host = "localhost"
		req.Header.Set("Content-Type", "text/plain")
		r.ServeHTTP(w, req)
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), want) || query != "" && !strings.Contains(w.Body.String(), `"want":7`) {
			t.Errorf("%q: %d %s", query, w.Code, w.Body)
		}
	}
}

// Where a stream is is remembered for a moment, and until it is not true any more.
func TestWhereAStreamIsIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &others{hints: map[string]string{"n/2": "n/3"}, dead: map[string]bool{}}
		r := oneOf(t, o)
		ask := func(when string, want ...string) {
			t.Helper()
			request(r, "append")
			if asked := o.take(); !slices.Equal(asked, want) {
				t.Errorf("%s: asked %v, want %v", when, asked, want)
			}
		}
		ask("at first", "n/2", "n/3")
		ask("at once", "n/3")
		time.Sleep(placeTime + 1)
		ask("after a while", "n/2", "n/3")
		o.hints = map[string]string{"n/3": "n/4"}
		ask("when it has moved", "n/3", "n/4")
		ask("and then", "n/4")
		o.dead["n/4"] = true
		ask("when it can't be reached", "n/4")
		ask("and then", "n/2")
	})
}
