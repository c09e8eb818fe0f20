package peer_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"rillkeep.dev/rillkeep/router/peer"
)

// overTCP is a pair as network.pair makes one, but over the machine's loopback,
// and with patience for a busy machine.
func overTCP(t testing.TB, h http.Handler) (*peer.Client, peer.Peer) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := peer.NewServer(peer.ServerConfig{Identity: identity("b"), Handler: h, WriteTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.Serve(l); err != nil {
			t.Error(err)
		}
	})
	c, err := peer.New(peer.Config{Identity: identity("a"), DialTimeout: 20 * time.Second, HelloTimeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		s.Close()
		serving.Wait()
	})
	return c, peer.Peer{Name: "b", Addr: l.Addr().String()}
}

func TestOverTCPSixHundredAttachAtOnceThoughOneIsNotRead(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	const readers = 600
	piece := bytes.Repeat([]byte("x"), 4<<10)
	more := make(chan struct{})
	c, b := overTCP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "open\n")
		w.(http.Flusher).Flush()
		if r.URL.Path == "/unread" {
			for {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		}
		<-more
		io.WriteString(w, "more\n")
	}))
	unread, err := c.Do(t.Context(), b, get("/unread"))
	if err != nil {
		t.Fatal(err)
	}
	defer unread.Body.Close()
	start := time.Now()
	var first, all sync.WaitGroup
	first.Add(readers)
	for range readers {
		all.Go(func() {
			resp, err := c.Do(t.Context(), b, get("/"))
			if err != nil {
				t.Error(err)
				first.Done()
				return
			}
			defer resp.Body.Close()
			_, err = io.ReadFull(resp.Body, make([]byte, 5))
			first.Done()
			if err != nil {
				t.Error(err)
			}
			if rest, err := io.ReadAll(resp.Body); string(rest) != "more\n" || err != nil {
				t.Errorf("read %q, %v", rest, err)
			}
		})
	}
	first.Wait()
	attached := time.Since(start)
	close(more)
	all.Wait()
	t.Logf("all have their first bytes after %v, and the rest after %v", attached, time.Since(start))
	if d := time.Since(start); d > 30*time.Second { // the unread stream is reset after a minute
		t.Errorf("took %v", d)
	}
}

func BenchmarkRequestOverTCP(b *testing.B) {
	c, to := overTCP(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	req := get("/v1/streams/s")
	b.ReportAllocs()
	for b.Loop() {
		resp, err := c.Do(b.Context(), to, req)
		if err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
	}
}

// BenchmarkStreamOverTCP is one frame of an attach: written and flushed by a
// handler, read by a client.
func BenchmarkStreamOverTCP(b *testing.B) {
	for _, size := range []int{128, 4 << 10, 64 << 10} {
		frame := []byte(strings.Repeat("x", size))
		b.Run(byteCount(size), func(b *testing.B) {
			c, to := overTCP(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				rc := http.NewResponseController(w)
				for {
					if _, err := w.Write(frame); err != nil {
						return
					}
					if rc.Flush() != nil {
						return
					}
				}
			}))
			resp, err := c.Do(b.Context(), to, get("/"))
			if err != nil {
				b.Fatal(err)
			}
			defer resp.Body.Close()
			buf := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := io.ReadFull(resp.Body, buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func byteCount(n int) string {
	if n < 1<<10 {
		return "128B"
	}
	return map[int]string{4 << 10: "4KiB", 64 << 10: "64KiB"}[n]
}
