package router_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/sse"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/sqlite"
)

// patience bounds what a test waits for.
const patience = 30 * time.Second

// open returns a router over a store of its own, and what it serves.
func open(tb testing.TB, limits router.Limits) (*router.Router, *actor.System) {
	tb.Helper()
	rows, err := sqlite.Open(tb.Context(), tb.TempDir()+"/", sqlite.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	return openOn(tb, rows, limits)
}

// openOn is open over a given store.
func openOn(tb testing.TB, rows store.Store, limits router.Limits) (*router.Router, *actor.System) {
	tb.Helper()
	policy := plane.DefaultPolicy()
	policy.Interval = 10 * time.Millisecond
	actors, err := actor.New(actor.Config{
		Plane: plane.Config{Store: rows, Policy: policy}, Node: "n1/boot", Authorize: router.Authorize,
	})
	if err != nil {
		tb.Fatal(err)
	}
	r, err := router.New(router.Config{Actors: actors, Store: rows, Metrics: router.NewMetrics(), Limits: limits})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(actors.Close(ctx), r.Close(ctx), rows.Close(ctx)); err != nil {
			tb.Error(err)
		}
	})
	return r, actors
}

func TestARouterNeedsWhatItServes(t *testing.T) {
	if _, err := router.New(router.Config{}); !errors.Is(err, plane.ErrConfig) {
		t.Errorf("got %v", err)
	}
}

func TestAReaderNeedsAGrantWhoeverAsks(t *testing.T) {
	if ok, err := router.Authorize(t.Context(), actor.Access{StreamID: "m1"}); ok || err == nil {
		t.Errorf("without a grant: %v, %v", ok, err)
	}
}

func TestAnyResponseWriterTakesAStream(t *testing.T) {
	r, actors := open(t, router.Limits{})
	s, err := actors.Open(t.Context(), plane.Claim{ID: "m1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Push(t.Context(), "text"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder() // has no deadlines and no connection
	req := httptest.NewRequest(http.MethodGet, "/v1/streams/m1", nil)
	req.Host = "localhost"
	r.ServeHTTP(w, req)
	if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, `"text":"text"`) || !strings.Contains(body, `"type":"end"`) {
		t.Errorf("%d %s", w.Code, body)
	}
}

func TestHTTP2ServesLongReadsAndPumps(t *testing.T) {
	limits := router.Limits{
		Ping: 100 * time.Millisecond, Stall: time.Second, BodyTime: time.Second, AnswerTime: time.Second,
	}
	r, actors := open(t, limits)
	server := httptest.NewUnstartedServer(r)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := actors.Open(ctx, plane.Claim{ID: "m1"}); err != nil {
		t.Fatal(err)
	}
	do := func(method, action string, body io.Reader) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, method, server.URL+"/v1/streams/m1"+action, body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.ProtoMajor != 2 || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %s %s", method, action, resp.Proto, resp.Status)
		}
		return resp
	}
	read := do(http.MethodGet, "", nil)
	defer read.Body.Close()
	events := sse.NewReader(read.Body, sse.Options{})
	if event, err := events.Next(); err != nil || !strings.Contains(string(event.Data), `"type":"open"`) {
		t.Fatalf("%s, %v", event.Data, err)
	}

	body, producer := io.Pipe()
	go func() { _, _ = io.WriteString(producer, "{\"text\":\"one \"}\n") }()
	pump := do(http.MethodPost, "/pump", body)
	defer pump.Body.Close()
	acks := bufio.NewReader(pump.Body)
	if line, err := acks.ReadString('\n'); err != nil || !strings.Contains(line, `"durableSeq":4`) {
		t.Fatalf("%q, %v", line, err)
	}
	time.Sleep(5 * limits.Stall / 2) // quiet for longer than each limit
	if _, err := io.WriteString(producer, "{\"text\":\"two\"}\n"); err != nil {
		t.Error(err)
	}
	if err := producer.Close(); err != nil {
		t.Error(err)
	}
	rest, err := io.ReadAll(acks)
	if err != nil || !strings.Contains(string(rest), `"done":true`) {
		t.Errorf("%q, %v", rest, err)
	}
	_ = do(http.MethodPost, "/close", nil).Body.Close()
	var seen strings.Builder
	for {
		event, err := events.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		seen.Write(event.Data)
	}
	if got := seen.String(); !strings.Contains(got, "one ") || !strings.Contains(got, "two") || !strings.Contains(got, `"type":"end"`) {
		t.Errorf("the reader got %s", got)
	}
}
