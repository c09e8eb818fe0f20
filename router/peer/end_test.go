package peer_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/router/peer"
)

func TestCancellingFreesTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		running := make(chan struct{})
		left := make(chan struct{})
		c, b := n.pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/body" {
				w.(http.Flusher).Flush()
			}
			running <- struct{}{}
			<-r.Context().Done()
			left <- struct{}{}
		}))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-running; cancel() }()
		_, err := c.Do(ctx, b, get("/header"))
		if wantErr(t, err, peer.ErrBroken); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		<-left

		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		resp, err := c.Do(ctx, b, get("/body"))
		if err != nil {
			t.Fatal(err)
		}
		<-running
		cancel()
		_, err = resp.Body.Read(make([]byte, 1))
		if wantErr(t, err, peer.ErrBroken); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		<-left

		resp, err = c.Do(t.Context(), b, get("/body"))
		if err != nil {
			t.Fatal(err)
		}
		<-running
		resp.Body.Close()
		<-left
	})
}

func TestForgetAndAMoveCloseTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		c, b := n.pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}))
		open := func(to peer.Peer) io.ReadCloser {
			t.Helper()
			resp, err := c.Do(t.Context(), to, get("/"))
			if err != nil {
				t.Fatal(err)
			}
			return resp.Body
		}
		ended := func(body io.ReadCloser) {
			t.Helper()
			_, err := body.Read(make([]byte, 1))
			wantErr(t, err, peer.ErrBroken)
			body.Close()
		}
		body := open(b)
		c.Forget("b")
		ended(body)
		c.Forget("nobody")

		body = open(b)
		moved := peer.Peer{Name: "b", Addr: "b:2"}
		n.serve(t, peer.ServerConfig{Identity: identity("b"), Handler: http.HandlerFunc(hello)}, "b:2")
		asks(t, c, moved, get("/"))
		ended(body)
		if got := n.dialled("b:1"); got != 2 {
			t.Errorf("%d dials to the old address, want 2", got)
		}
	})
}

func TestClosingTheClientEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		c, b := n.pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/body" {
				w.(http.Flusher).Flush()
			}
			<-r.Context().Done()
		}))
		n.frozen(t, "f:1")
		resp, err := c.Do(t.Context(), b, get("/body"))
		if err != nil {
			t.Fatal(err)
		}
		var waiting sync.WaitGroup
		waiting.Go(func() {
			_, err := c.Do(t.Context(), b, get("/header"))
			wantErr(t, err, peer.ErrBroken)
		})
		waiting.Go(func() {
			_, err := c.Do(t.Context(), peer.Peer{Name: "f", Addr: "f:1"}, get("/"))
			wantErr(t, err, peer.ErrUnreachable)
		})
		synctest.Wait()
		if d := took(func() { c.Close() }); d != 0 {
			t.Errorf("took %v", d)
		}
		waiting.Wait()
		_, err = resp.Body.Read(make([]byte, 1))
		wantErr(t, err, peer.ErrBroken)
		resp.Body.Close()
		_, err = c.Do(t.Context(), b, get("/"))
		wantErr(t, err, peer.ErrUnreachable)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestClosingTheServerEndsStreamsAndWaitsForHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var running atomic.Int64
		s, err := peer.NewServer(peer.ServerConfig{Identity: identity("b"), Handler: http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				running.Add(1)
				defer running.Add(-1)
				w.(http.Flusher).Flush()
				<-r.Context().Done()
				time.Sleep(time.Second) // it tidies up
			})})
		if err != nil {
			t.Fatal(err)
		}
		l := n.listen("b:1")
		ended := make(chan error)
		go func() { ended <- s.Serve(l) }()
		c, b := n.client(t, peer.Config{Identity: identity("a")}), peer.Peer{Name: "b", Addr: "b:1"}
		var bodies []io.ReadCloser
		for range 10 {
			resp, err := c.Do(t.Context(), b, get("/"))
			if err != nil {
				t.Fatal(err)
			}
			bodies = append(bodies, resp.Body)
		}
		go s.Close()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
		s.Close()
		if running.Load() != 0 {
			t.Errorf("%d handlers still run", running.Load())
		}
		for _, b := range bodies {
			_, err := b.Read(make([]byte, 1))
			wantErr(t, err, peer.ErrBroken)
			b.Close()
		}
		if err := s.Serve(n.listen("b:2")); err != nil {
			t.Errorf("Serve of a closed server: %v", err)
		}
	})
}

func TestAGoodbyeLetsRequestsEndAndTheNextGoElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		s := n.serve(t, peer.ServerConfig{Identity: identity("b"), Handler: http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				w.(http.Flusher).Flush()
				time.Sleep(3 * time.Second)
				io.WriteString(w, "end")
			})}, "b:1")
		c, b := n.client(t, peer.Config{Identity: identity("a")}), peer.Peer{Name: "b", Addr: "b:1"}
		resp, err := c.Do(t.Context(), b, get("/"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var stopping sync.WaitGroup
		stopping.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := s.Goodbye(ctx); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		_, err = c.Do(t.Context(), b, get("/"))
		wantErr(t, err, peer.ErrUnreachable)
		if body, err := io.ReadAll(resp.Body); string(body) != "end" || err != nil {
			t.Errorf("read %q, %v, want the end", body, err)
		}
		stopping.Wait()
	})
}

func TestNothingIsSentTwiceOnceItMayHaveArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var served atomic.Int64
		c, b := n.pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			served.Add(1)
			panic(http.ErrAbortHandler)
		}))
		_, err := c.Do(t.Context(), b, get("/"))
		wantErr(t, err, peer.ErrBroken)
		if served.Load() != 1 {
			t.Errorf("served %d times, want once", served.Load())
		}
	})
}

func TestAConnectionThatDiedAtRestIsReplacedUnnoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		c, b := n.pair(t, http.HandlerFunc(echo))
		for range 3 {
			req, _ := http.NewRequest(http.MethodPost, "http://x/", io.NopCloser(strings.NewReader("text")))
			if got := asks(t, c, b, req); got != "text" {
				t.Errorf("got %q", got)
			}
			n.hangUp()
			synctest.Wait()
		}
		if got := n.dialled("b:1"); got != 3 {
			t.Errorf("%d dials, want 3", got)
		}
	})
}
