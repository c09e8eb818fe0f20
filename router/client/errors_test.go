package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/auth"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
)

func TestErrorsKeepTheirIdentityAcrossTheHop(t *testing.T) {
	t.Parallel()
	policy := manual()
	policy.MaxUnits, policy.MaxOutstanding = 1<<20, 2<<20
	c := connect(t, client.Config{Server: openNode(t, node.Config{Policy: policy}).URL()})
	ctx := within(t, patience)
	open(t, c, "live")
	appendAt(t, c, "live", 0, "hello")
	open(t, c, "ended")
	closed(t, c, "ended")
	open(t, c, "stopping")
	if _, err := c.Cancel(ctx, "stopping"); err != nil {
		t.Fatal(err)
	}
	no := func(_ any, err error) error { return err }
	for _, tt := range []struct {
		name string
		err  error
		is   error
		want int64 // offset to go on at; 0 is none
	}{
		{"open twice", no(c.Open(ctx, "live", wire.Open{})), plane.ErrOpenHere, 0},
		{"open of one that lingers", no(c.Open(ctx, "ended", wire.Open{})), plane.ErrOpenHere, 0},
		{"append past the end", no(c.Append(ctx, "live", 6, "x")), plane.ErrGap, 5},
		{"append of other text", no(c.Append(ctx, "live", 3, "LO")), plane.ErrConflict, 5},
		{"append after the end", no(c.Append(ctx, "ended", 0, "x")), plane.ErrClosed, 0},
		{"append when asked to stop", no(c.Append(ctx, "stopping", 0, "x")), plane.ErrCancelled, 0},
		{"append of too much at once", no(c.Append(ctx, "live", 5, strings.Repeat("x", 1<<20))), wire.ErrTooLarge, 0},
		{"append to nothing", no(c.Append(ctx, "none", 0, "x")), plane.ErrNotFound, 0},
		{"flush of nothing", no(c.Flush(ctx, "none")), plane.ErrNotFound, 0},
		{"close of nothing", no(c.Close(ctx, "none", wire.Close{})), plane.ErrNotFound, 0},
		{"fail of nothing", no(c.Fail(ctx, "none", "")), plane.ErrNotFound, 0},
		{"cancel of nothing", no(c.Cancel(ctx, "none")), plane.ErrNotFound, 0},
		{"snapshot of nothing", no(c.Snapshot(ctx, "none")), plane.ErrNotFound, 0},
		{"pump into nothing", no(c.Pump(ctx, "none", 0, deltas("x"), nil)), plane.ErrNotFound, 0},
		{"follow of nothing", follow(ctx, c, "none", 0, "").err, plane.ErrNotFound, 0},
		{"pump past the end", no(c.Pump(ctx, "live", 7, deltas("x"), nil)), plane.ErrGap, 5},
		{"pump of other text", no(c.Pump(ctx, "live", 0, deltas("hel", "x"), nil)), plane.ErrConflict, 5},
		{"pump after the end", no(c.Pump(ctx, "ended", 0, deltas("x"), nil)), plane.ErrClosed, 0},
		{"pump of too much", no(c.Pump(ctx, "live", 5, deltas(strings.Repeat("x", 2<<20)), nil)), plane.ErrTooLong, 0},
		{"close as something else", no(c.Close(ctx, "live", wire.Close{Status: "error"})), wire.ErrBadRequest, 0},
		{"listing of something else", no(c.List(ctx, client.Query{Status: "odd"})), wire.ErrBadRequest, 0},
		{"id that is too long", no(c.Open(ctx, strings.Repeat("x", 257), wire.Open{})), wire.ErrBadRequest, 0},
		{"id that is not printable", no(c.Open(ctx, "a\nb", wire.Open{})), wire.ErrBadRequest, 0},
		{"id that is not UTF-8", no(c.Open(ctx, "a\xff", wire.Open{})), wire.ErrBadRequest, 0},
	} {
		var said *wire.Error
		switch {
		case !errors.Is(tt.err, tt.is) || !errors.As(tt.err, &said):
			t.Errorf("%s: %v, want %v", tt.name, tt.err, tt.is)
		case tt.want != 0 && (said.Want == nil || *said.Want != tt.want):
			t.Errorf("%s: go on at %v, want %d", tt.name, said.Want, tt.want)
		case tt.want == 0 && said.Want != nil:
			t.Errorf("%s: go on at %d", tt.name, *said.Want)
		}
	}
}

func TestEveryErrorOfTheAPIKeepsItsIdentity(t *testing.T) {
	t.Parallel()
	var current error
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		said := wire.FromError(current)
		w.WriteHeader(said.Status)
		_ = json.NewEncoder(w).Encode(wire.ErrorBody{Error: said})
	}))
	t.Cleanup(server.Close)
	c := connect(t, client.Config{Server: server.URL})
	for _, current = range []error{
		plane.ErrNotFound, plane.ErrExists, plane.ErrOpenHere, plane.ErrNullLength, plane.ErrHeld, plane.ErrLostRace, plane.ErrDraining,
		plane.ErrFull, plane.ErrClosed, plane.ErrFenced, plane.ErrGap, plane.ErrConflict, plane.ErrCancelled,
		plane.ErrTooLong, plane.ErrShort, plane.ErrDenied,
		wire.ErrBadRequest, wire.ErrUnauthorized, wire.ErrForeign, wire.ErrTooLarge, wire.ErrMediaType,
		wire.ErrUnavailable, wire.ErrNoRoute, wire.ErrMethod, wire.ErrInternal,
	} {
		if _, err := c.Flush(within(t, patience), "m"); !errors.Is(err, current) {
			t.Errorf("%v arrived as %v", current, err)
		}
	}
}

func TestAnswersThatAreNotTheAPIsAreErrors(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/streams/page", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("<html>log in</html>"))
	})
	mux.HandleFunc("/v1/streams/bad", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
	})
	mux.HandleFunc("/v1/streams/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte(`{"text":"`))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	c := connect(t, client.Config{Server: server.URL})
	for id, want := range map[string]string{
		"page": "decode answer: ", "bad": "internal: server answered 502 Bad Gateway", "cut": "read answer: unexpected EOF",
	} {
		_, err := c.Snapshot(within(t, patience), id)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", id, err, want)
		}
	}
	if got := follow(within(t, patience), c, "page", 0, ""); got.err == nil || !strings.Contains(got.err.Error(), "not with an event stream") {
		t.Errorf("follow of a page: %v", got.err)
	}
}

func TestTokensDecideBeforeExistenceIsLookedUp(t *testing.T) {
	t.Parallel()
	keys, err := auth.ParseKeys(strings.Repeat("k", 32))
	if err != nil {
		t.Fatal(err)
	}
	n := openNode(t, node.Config{Keys: keys})
	as := func(streams string, ops ...auth.Op) *client.Client {
		token, err := keys.Mint(auth.Claims{Ops: ops, Streams: []string{streams}, Expires: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		return connect(t, client.Config{Server: n.URL(), Token: token})
	}
	producer, reader := as("m*", auth.Write, auth.Read), as("m*", auth.Read)
	open(t, producer, "m1")
	closed(t, producer, "m1")
	if got := follow(within(t, patience), reader, "m1", 0, ""); got.err != nil {
		t.Errorf("reader: %v", got.err)
	}
	for _, tt := range []struct {
		name string
		c    *client.Client
		is   error
	}{
		{"nobody", connect(t, client.Config{Server: n.URL()}), wire.ErrUnauthorized},
		{"a forger", connect(t, client.Config{Server: n.URL(), Token: "x.y.z"}), wire.ErrUnauthorized},
		{"who may read others", as("x*", auth.Read), plane.ErrDenied},
	} {
		var messages []string
		for _, id := range []string{"m1", "m-none"} {
			got := follow(within(t, patience), tt.c, id, 0, "")
			_, err := tt.c.Snapshot(t.Context(), id)
			if !errors.Is(got.err, tt.is) || !errors.Is(err, tt.is) {
				t.Errorf("%s of %s: %v, %v, want %v", tt.name, id, got.err, err, tt.is)
				continue
			}
			messages = append(messages, got.err.Error(), err.Error())
		}
		for _, m := range messages {
			if m != messages[0] {
				t.Errorf("%s is told %q and %q", tt.name, m, messages[0])
			}
		}
	}
	if _, err := reader.Append(t.Context(), "m1", 0, "x"); !errors.Is(err, plane.ErrDenied) {
		t.Errorf("reader that writes: %v", err)
	}
}

func TestCallsAreBoundedAndShowNoAddress(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	c := connect(t, client.Config{Server: server.URL, Timeout: 50 * time.Millisecond})
	if _, err := c.Flush(within(t, patience), "m"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("flush at a server that hangs: %v", err)
	}
	c = connect(t, client.Config{Server: "http://user:hush@127.0.0.1:1"})
	_, err := c.Flush(within(t, patience), "m")
	if err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("flush at no server: %v", err)
	}
}
