package peer_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/router/peer"
)

// frozen takes connections and what comes on them, and never says a word.
func (n *network) frozen(t testing.TB, addr string) {
	l := n.listen(addr)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { io.Copy(io.Discard, c) })
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
}

func TestAnAddressWhereNobodyListensIsUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		c, b := n.client(t, peer.Config{Identity: identity("a")}), peer.Peer{Name: "b", Addr: "b:1"}
		req, _ := http.NewRequest(http.MethodPost, "http://x/", io.NopCloser(strings.NewReader("text")))
		closed := &closing{Reader: strings.NewReader("text")}
		req.Body = closed
		_, _, err := ask(t.Context(), c, b, req)
		wantErr(t, err, peer.ErrUnreachable)
		if !closed.closed.Load() {
			t.Error("body was not closed")
		}
	})
}

type closing struct {
	io.Reader
	closed atomic.Bool
}

func (c *closing) Close() error { c.closed.Store(true); return nil }

func TestADialIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.listen("b:1") // nobody accepts
		c, b := n.client(t, peer.Config{Identity: identity("a")}), peer.Peer{Name: "b", Addr: "b:1"}
		var err error
		d := took(func() { _, _, err = ask(t.Context(), c, b, get("/")) })
		wantErr(t, err, peer.ErrUnreachable)
		if d != 400*time.Millisecond {
			t.Errorf("took %v, want 400ms", d)
		}
	})
}

func TestAConnectionThatTakesNoByteIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := peer.New(peer.Config{Identity: identity("a"), Dial: func(context.Context, string) (net.Conn, error) {
			near, _ := net.Pipe() // nobody reads at the other end
			return near, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		d := took(func() { _, _, err = ask(t.Context(), c, peer.Peer{Name: "b", Addr: "b:1"}, get("/")) })
		wantErr(t, err, peer.ErrUnreachable)
		if d != 400*time.Millisecond {
			t.Errorf("took %v, want 400ms", d)
		}
	})
}

func TestAPeerThatAcceptsAndNeverAnswersEndsWithinTheGreeting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.frozen(t, "b:1")
		c, b := n.client(t, peer.Config{Identity: identity("a")}), peer.Peer{Name: "b", Addr: "b:1"}
		var err error
		d := took(func() { _, _, err = ask(t.Context(), c, b, get("/")) })
		wantErr(t, err, peer.ErrUnreachable)
		if d != time.Second {
			t.Errorf("took %v, want 1s", d)
		}
		if !c.Unreachable("b") {
			t.Error("not remembered")
		}
	})
}

func TestACallersDeadlineEndsAnyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.frozen(t, "b:1")
		c, b := n.client(t, peer.Config{Identity: identity("a")}), peer.Peer{Name: "b", Addr: "b:1"}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		var err error
		d := took(func() { _, _, err = ask(ctx, c, b, get("/")) })
		wantErr(t, err, peer.ErrUnreachable)
		if d != 300*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("took %v, %v", d, err)
		}
		if c.Unreachable("b") {
			t.Error("a caller's impatience counts as the peer's failure")
		}
	})
}

func TestASlowHandlerEndsWithinTheBoundAndIsNotHeldAgainstThePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		c, b := n.pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				<-r.Context().Done()
			}
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		var err error
		d := took(func() { _, err = c.Do(ctx, b, get("/slow")) })
		wantErr(t, err, peer.ErrBroken)
		if d != 2*time.Second || !errors.Is(err, context.DeadlineExceeded) || c.Unreachable("b") {
			t.Errorf("took %v, %v, unreachable %v", d, err, c.Unreachable("b"))
		}
		asks(t, c, b, get("/"))
	})
}

func TestFailuresAreRememberedProbedAndForgiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		c, b := n.client(t, peer.Config{Identity: identity("a")}), peer.Peer{Name: "b", Addr: "b:1"}
		n.listen("b:1") // hangs until the dial bound
		ask(t.Context(), c, b, get("/"))
		start := time.Now()
		var dials []time.Duration
		for time.Since(start) < 20*time.Second {
			before := n.dialled("b:1")
			var tries sync.WaitGroup
			var waited atomic.Int64
			for range 10 {
				tries.Go(func() {
					d := took(func() {
						_, _, err := ask(t.Context(), c, b, get("/"))
						wantErr(t, err, peer.ErrUnreachable)
					})
					if d > 0 {
						waited.Add(1)
					}
				})
			}
			tries.Wait()
			if waited.Load() > 1 {
				t.Errorf("%d requests at once were tried", waited.Load())
			}
			if extra := n.dialled("b:1") - before; extra > 1 {
				t.Errorf("%d dials at once", extra)
			} else if extra == 1 {
				dials = append(dials, time.Since(start))
			}
			time.Sleep(10 * time.Millisecond)
		}
		// A probe takes 0.4s and the next comes 0.75s to 1.25s after it.
		if len(dials) < 11 || len(dials) > 18 {
			t.Errorf("%d dials in 20s, at %v", len(dials), dials)
		}
		for took(func() { ask(t.Context(), c, b, get("/")) }) == 0 { // until a probe has just failed
			time.Sleep(10 * time.Millisecond)
		}
		n.serve(t, peer.ServerConfig{Identity: identity("b"), Handler: http.HandlerFunc(hello)}, "b:1")
		if _, _, err := ask(t.Context(), c, b, get("/")); err == nil {
			t.Error("tried at once, want a failure from memory")
		}
		time.Sleep(1300 * time.Millisecond)
		asks(t, c, b, get("/"))
		if c.Unreachable("b") {
			t.Error("a success did not clear the failure")
		}
	})
}

func TestAFailureIsForgottenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		c, b := n.client(t, peer.Config{Identity: identity("a")}), peer.Peer{Name: "b", Addr: "b:1"}
		ask(t.Context(), c, b, get("/"))
		time.Sleep(3700 * time.Millisecond)
		if !c.Unreachable("b") {
			t.Error("forgotten after 3.7s")
		}
		time.Sleep(2600 * time.Millisecond)
		if c.Unreachable("b") {
			t.Error("still remembered after 6.3s")
		}
	})
}

func TestAHalfOpenConnectionIsNoticedAtBothEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		freed := make(chan time.Duration, 1)
		start := time.Now()
		c, b := n.pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			freed <- time.Since(start)
		}))
		resp, err := c.Do(t.Context(), b, get("/"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		n.cut()
		_, err = resp.Body.Read(make([]byte, 1))
		wantErr(t, err, peer.ErrBroken)
		if d := time.Since(start); d < 4*time.Second || d > 6*time.Second {
			t.Errorf("noticed by the client after %v, want about 5s", d)
		}
		if d := <-freed; d > 6*time.Second {
			t.Errorf("noticed by the server after %v, want about 5s", d)
		}
		n.hangUp()
	})
}

func TestATimeoutOnASilentConnectionIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		c, b := n.pair(t, http.HandlerFunc(hello))
		asks(t, c, b, get("/"))
		n.cut()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := c.Do(ctx, b, get("/"))
		wantErr(t, err, peer.ErrBroken)
		if !c.Unreachable("b") {
			t.Error("not remembered")
		}
		d := took(func() { _, err = c.Do(t.Context(), b, get("/")) })
		wantErr(t, err, peer.ErrUnreachable)
		if d != 0 {
			t.Errorf("took %v, want a failure at once", d)
		}
		time.Sleep(7 * time.Second) // the dead connection is gone by now
		n.hangUp()
		asks(t, c, b, get("/"))
	})
}

func TestASilentBodyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		left := make(chan struct{})
		c, b := n.pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for range 5 {
				io.WriteString(w, "x")
				w.(http.Flusher).Flush()
				time.Sleep(10 * time.Second)
			}
			<-r.Context().Done()
			close(left)
		}))
		resp, err := c.Do(t.Context(), b, get("/"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // a reader's own pause is no silence
		start := time.Now()
		body, err := io.ReadAll(resp.Body)
		wantErr(t, err, peer.ErrBroken)
		if d := time.Since(start); len(body) != 4 || d != 12500*time.Millisecond {
			t.Errorf("read %d bytes in %v, want 4 in 12.5s", len(body), d)
		}
		<-left
		if c.Unreachable("b") {
			t.Error("one silent body is held against the peer")
		}
	})
}

func TestAQuietBodyIsReadForAsLongAsItsConnectionLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		c, b := n.pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for range 2 {
				io.WriteString(w, "x")
				w.(http.Flusher).Flush()
				time.Sleep(time.Hour)
			}
			<-r.Context().Done()
		}))
		resp, err := c.Do(peer.Quiet(t.Context()), b, get("/"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.ReadFull(resp.Body, make([]byte, 2)); err != nil {
			t.Fatal(err)
		}
		n.cut()
		d := took(func() { _, err = io.ReadAll(resp.Body) })
		wantErr(t, err, peer.ErrBroken)
		if d > 10*time.Second {
			t.Errorf("a dead connection was noticed after %v", d)
		}
		n.hangUp()
	})
}
