package node_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/sse"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// The tests of this file look at the whole process, or are heavy: none of them
// runs beside another test.

// hashed reads to the end and returns the hash of the text.
func (r *reader) hashed() (string, error) {
	hash := sha256.New()
	r.into = hash
	err := r.rest()
	return fmt.Sprintf("%x", hash.Sum(nil)), err
}

// slowly gives out at most so many bytes a second, until it is told to hurry.
type slowly struct {
	io.Reader
	rate  int
	hurry chan struct{}
}

func (s *slowly) Read(p []byte) (int, error) {
	select {
	case <-s.hurry:
		return s.Reader.Read(p)
	default:
	}
	n, err := s.Reader.Read(p[:min(len(p), s.rate/20)])
	pause := time.NewTimer(time.Duration(n) * time.Second / time.Duration(s.rate))
	defer pause.Stop()
	select {
	case <-s.hurry:
	case <-pause.C:
	}
	return n, err
}

// slow makes a reader that was not read from yet take so many bytes a second,
// until hurry is called.
func (r *reader) slow(rate int) (hurry func()) {
	s := &slowly{Reader: r.stream, rate: rate, hurry: make(chan struct{})}
	r.events = sse.NewReader(s, sse.Options{})
	return func() { close(s.hurry) }
}

// smallWindow connects so that what is not read stays with the server.
func smallWindow(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{ControlContext: receiveBuffer(4096)}
	return d.DialContext(ctx, network, addr)
}

func TestABurstReachesFastSlowPausedAndLateReaders(t *testing.T) {
	const (
		deltas = 40_000
		sum    = "027b602e50b1aef411e7d0616373e2fe5145ad8c21ac9440a17d01d6f97d881d"
	)
	n := openNode(t, node.Config{})
	n.open("m1")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var readers errgroup.Group
	join := func(name string, before func(*reader)) {
		transport := &http.Transport{DialContext: smallWindow}
		r, err := joinAs(ctx, &http.Client{Transport: transport}, n.URL()+"/v1/streams/m1")
		if err != nil {
			t.Fatal(err)
		}
		before(r)
		readers.Go(func() error {
			defer transport.CloseIdleConnections()
			if name == "paused" {
				time.Sleep(3 * time.Second) // as a tab in the background does
			}
			got, err := r.hashed()
			if err == nil && (got != sum || r.pos != 6*deltas || r.from != 0) {
				err = fmt.Errorf("%d units from %d with sum %s", r.pos, r.from, got)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	join("fast", func(*reader) {})
	join("fast", func(*reader) {})
	join("slow", func(r *reader) { r.slow(100_000) })
	join("paused", func(*reader) {})

	began := time.Now()
	p := n.pump("m1", "from=0", "application/x-ndjson")
	var lines strings.Builder
	for i := range deltas {
		fmt.Fprintf(&lines, "{\"text\":\"%05d \"}\n", i)
		if i == deltas/2 {
			join("late", func(*reader) {})
		}
		if i%100 == 99 {
			p.piece(lines.String())
			lines.Reset()
		}
	}
	p.finish()
	if line := p.last(); line.Error != nil || line.Seq != 6*deltas {
		t.Errorf("pump: %+v", line)
	}
	took := time.Since(began)
	n.seal("m1")
	if err := readers.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("%d deltas in %v", deltas, took)
}

func TestASlowReaderCatchesUpWithoutAHole(t *testing.T) {
	n := openNode(t, node.Config{Limits: router.Limits{Ping: 50 * time.Millisecond}})
	n.open("m1")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	transport := &http.Transport{DialContext: smallWindow}
	defer transport.CloseIdleConnections()
	slow, err := joinAs(ctx, &http.Client{Transport: transport}, n.URL()+"/v1/streams/m1")
	if err != nil {
		t.Fatal(err)
	}
	hurry := slow.slow(2000)
	done := make(chan error, 1)
	go func() { done <- slow.until(20_000) }()
	var fast errgroup.Group
	for range 20 {
		r, err := n.join(ctx, "m1", "")
		if err != nil {
			t.Fatal(err)
		}
		fast.Go(r.rest)
	}
	text := strings.Repeat("0123456789", 100_000)
	n.pumpText("m1", text)
	n.seal("m1")
	if err := fast.Wait(); err != nil { // they do not wait for the slow one
		t.Error(err)
	}
	hurry()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := slow.rest(); err != nil || slow.pos != 1_000_000 {
		t.Errorf("at %d: %v", slow.pos, err)
	}
}

func TestAHugeTextIsReplayedInBoundedMemory(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		cfg := node.Config{Limits: router.Limits{PageUnits: 1 << 20}}
		testHugeText(t, cfg, 50, 4) // which the race detector makes slow
	})
	t.Run("postgres", func(t *testing.T) {
		cfg := node.Config{Limits: router.Limits{PageUnits: 1 << 19}, Database: pgtest.URL(t)}
		testHugeText(t, cfg, 0, 20)
	})
}

// testHugeText has a text read by many while it is live, and then as it is sealed.
func testHugeText(t *testing.T, cfg node.Config, live, sealed int) {
	const (
		sum  = "adc68447596cd3a22b434aba1da59395261ef9af3876b2b69a7c354f2b7e8f49"
		most = 100 << 20 // bytes that the heap may grow by, the readers' own part included
	)
	text := strings.Repeat("Row 0123 äöü 漢字 😀. ", 413_793)
	n := openNode(t, cfg)
	n.open("m1")
	n.pumpText("m1", text)
	text = ""
	replay := func(state string, readers int, joined func()) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
		defer cancel()
		began, peak := time.Now(), watchHeap()
		var all errgroup.Group
		here := make(chan struct{}, readers)
		for range readers {
			all.Go(func() error {
				r, err := n.join(ctx, "m1", "")
				here <- struct{}{}
				if err != nil {
					return err
				}
				got, err := hashedLines(r.stream)
				if err == nil && got != sum {
					err = fmt.Errorf("%s: a text with sum %s", state, got)
				}
				return err
			})
		}
		for range readers {
			<-here
		}
		joined()
		if err := all.Wait(); err != nil {
			t.Error(err)
		}
		grew := peak()
		t.Logf("%s: %d readers in %v; the heap grew by %d MiB", state, readers, time.Since(began), grew>>20)
		if grew > most {
			t.Errorf("%s: the heap grew by %d MiB", state, grew>>20)
		}
	}
	replay("live", live, func() { n.seal("m1") })
	n = n.restart()
	replay("sealed", sealed, func() {})
}

// hashedLines returns the hash of a stream's text, of which no character is
// escaped, and fails for a line over the bound of a frame. A reader of another
// kind would take most of the test's time, and of its memory.
func hashedLines(stream io.Reader) (string, error) {
	const bound = maxFrame + 200
	hash, lines := sha256.New(), bufio.NewReaderSize(stream, bound)
	for ended := false; ; {
		line, err := lines.ReadSlice('\n')
		switch {
		case err == io.EOF && ended:
			return fmt.Sprintf("%x", hash.Sum(nil)), nil
		case err != nil:
			return "", fmt.Errorf("after %t: %w", ended, err)
		}
		ended = bytes.HasPrefix(line, []byte(`data: {"type":"end"`)) || ended && len(line) == 1
		if head, text, ok := bytes.Cut(line, []byte(`,"text":"`)); ok && bytes.HasPrefix(head, []byte("data: ")) {
			_, _ = hash.Write(bytes.TrimSuffix(text, []byte("\"}\n")))
		}
	}
}

// watchHeap begins to look at the heap, and returns what ends that and answers
// by how many bytes it grew at most.
func watchHeap() (grew func() uint64) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	read := func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	runtime.GC()
	base := read()
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		most := base
		for {
			select {
			case <-tick.C:
				most = max(most, read())
			case <-stop:
				peak <- most - base
				return
			}
		}
	}()
	return func() uint64 { close(stop); return <-peak }
}
