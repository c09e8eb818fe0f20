package peer_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
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

func TestAThousandStreamsShareOneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 1000
		n := newNetwork()
		var open sync.WaitGroup
		open.Add(streams)
		c, b := n.pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, r.URL.RawQuery)
			w.(http.Flusher).Flush()
			open.Done()
			open.Wait() // all are open at once
			io.WriteString(w, " end")
		}))
		var readers sync.WaitGroup
		for i := range streams {
			readers.Go(func() {
				if got, want := asks(t, c, b, get(fmt.Sprintf("/?%d", i))), fmt.Sprintf("%d end", i); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		}
		readers.Wait()
		if got := n.dialled("b:1"); got != 1 {
			t.Errorf("%d connections, want 1", got)
		}
	})
}

// TestAnUnreadStreamDelaysNobody is over pipes, where whatever waits for a timer
// shows in the bubble's clock: nothing does.
func TestAnUnreadStreamDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const readers, unread = 600, 7 // every 100th is not read
		n := newNetwork()
		piece := bytes.Repeat([]byte("x"), 32<<10)
		var cutOff atomic.Int64
		c, b := n.pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/unread" {
				var err error
				for err == nil { // as much as it takes
					_, err = w.Write(piece)
				}
				cutOff.Add(1)
				return
			}
			for i := range 20 {
				fmt.Fprintf(w, "%d\n", i)
				w.(http.Flusher).Flush()
			}
		}))
		start := time.Now()
		var all sync.WaitGroup
		bodies := make(chan io.ReadCloser, unread)
		for i := range readers + unread {
			all.Go(func() {
				path := "/read"
				if i%100 == 0 {
					path = "/unread"
				}
				resp, err := c.Do(t.Context(), b, get(path))
				if err != nil {
					t.Error(err)
					return
				}
				if path == "/unread" {
					bodies <- resp.Body
					return
				}
				defer resp.Body.Close()
				if body, err := io.ReadAll(resp.Body); err != nil || bytes.Count(body, []byte("\n")) != 20 {
					t.Errorf("read %d bytes, %v", len(body), err)
				}
			})
		}
		all.Wait()
		if d := time.Since(start); d != 0 {
			t.Errorf("readers waited %v, want not at all", d)
		}
		if cutOff.Load() != 0 {
			t.Error("an unread stream was cut off at once")
		}
		time.Sleep(11 * time.Second)
		if cutOff.Load() != unread {
			t.Errorf("%d writers of unread streams gave up in 11s, want %d", cutOff.Load(), unread)
		}
		for range unread {
			body := <-bodies
			got, err := io.ReadAll(body)
			wantErr(t, err, peer.ErrBroken)
			if len(got) > 160<<10 {
				t.Errorf("%d bytes of an unread stream waited in memory", len(got))
			}
			body.Close()
		}
	})
}

func TestUnreadRequestBodiesDelayNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const unread = 100
		n := newNetwork()
		c, b := n.pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/unread" {
				w.(http.Flusher).Flush()
				<-r.Context().Done()
				return
			}
			io.Copy(w, r.Body)
		}))
		ctx, cancel := context.WithCancel(t.Context())
		var sent atomic.Int64
		for range unread {
			req, _ := http.NewRequest(http.MethodPost, "http://x/unread", &endless{sent: &sent})
			resp, err := c.Do(ctx, b, req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
		}
		synctest.Wait()
		if s := sent.Load(); s < unread*100<<10 {
			t.Errorf("only %d bytes are under way; the test does not bite", s)
		}
		start := time.Now()
		text := strings.Repeat("text", 100_000)
		req, _ := http.NewRequest(http.MethodPost, "http://x/", strings.NewReader(text))
		if got := asks(t, c, b, req); got != text {
			t.Errorf("%d bytes came back, want %d", len(got), len(text))
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("waited %v", d)
		}
		cancel()
	})
}

type endless struct{ sent *atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) { e.sent.Add(int64(len(p))); return len(p), nil }

func TestAPumpRunsBothWaysAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		c, b := n.pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			lines := bufio.NewScanner(r.Body)
			for lines.Scan() {
				fmt.Fprintf(w, "ack %s\n", lines.Text())
				w.(http.Flusher).Flush()
			}
			io.WriteString(w, "end")
		}))
		reader, writer := io.Pipe()
		req, _ := http.NewRequest(http.MethodPost, "http://x/pump", reader)
		resp, err := c.Do(t.Context(), b, req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answers := bufio.NewReader(resp.Body)
		for i := range 100 {
			fmt.Fprintf(writer, "%d\n", i)
			if got, err := answers.ReadString('\n'); got != fmt.Sprintf("ack %d\n", i) || err != nil {
				t.Fatalf("got %q, %v", got, err)
			}
			time.Sleep(time.Second)
		}
		writer.Close()
		if rest, err := io.ReadAll(answers); string(rest) != "end" || err != nil {
			t.Errorf("got %q, %v", rest, err)
		}
	})
}
