package node_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// lineUnits is the length of each line of the texts below, in UTF-16 code units.
const lineUnits = 256

// stretch returns the units from one offset to another of a stream's text, of
// which no two lines are alike, nor two streams' texts. Neither lies inside a
// pair.
func stretch(stream int, from, to int64) string {
	var b strings.Builder
	for n := from / lineUnits; n*lineUnits < to; n++ {
		fmt.Fprintf(&b, "%04d 😀 %08d größer %0231d\n", stream, n, n*n)
	}
	text := plane.Skip(b.String(), from%lineUnits)
	rest := plane.Skip(text, to-from)
	return text[:len(text)-len(rest)]
}

// checked holds what its reader is given to a stream's text.
type checked struct {
	*transcript
	stream int
}

func (c checked) Write(chunk []byte) (int, error) {
	from := c.pos - plane.Units(string(chunk))
	if string(chunk) != stretch(c.stream, from, c.pos) {
		return 0, fmt.Errorf("stream %d from %d to %d is not the text", c.stream, from, c.pos)
	}
	return len(chunk), nil
}

// load is many streams that go on together, and their readers.
type load struct {
	*running
	streams, at int
	units       int64 // of each text
	readers     errgroup.Group
}

func name(stream int) string { return fmt.Sprint("m", stream) }

// read joins a stream somewhere, and reads all from there on, pausing for the
// given time after its first frame.
func (l *load) read(ctx context.Context, stream int, from int64, pause time.Duration) error {
	r, err := l.join(ctx, name(stream), fmt.Sprintf("from=%d", from))
	if err != nil {
		return err
	}
	r.into = checked{&r.transcript, stream}
	l.readers.Go(func() error {
		defer r.body.Close()
		if _, err := r.next(); err != nil {
			return err
		}
		time.Sleep(pause) // as a tab in the background does
		if err := r.rest(); err != nil {
			return fmt.Errorf("%s from %d, at %d: %w", name(stream), from, r.pos, err)
		}
		if r.end.Kind != plane.KindEnd || r.pos != l.units || r.from > from {
			return fmt.Errorf("%s from %d: read from %d to %d, %+v", name(stream), from, r.from, r.pos, r.end)
		}
		return nil
	})
	return nil
}

// each does something with all streams, a few at a time.
func (l *load) each(do func(stream int) error) {
	l.tb.Helper()
	var all errgroup.Group
	all.SetLimit(l.at)
	for i := range l.streams {
		all.Go(func() error { return do(i) })
	}
	if err := all.Wait(); err != nil {
		l.tb.Fatal(err)
	}
}

// grow brings all texts from one length to another. Some producers did not hear
// the answer, and repeat themselves.
func (l *load) grow(ctx context.Context, from, to int64) {
	l.tb.Helper()
	l.each(func(i int) error {
		delta := stretch(i, from, to)
		for range 1 + i%2 {
			ack, err := l.client.Append(ctx, name(i), from, delta)
			if err != nil || ack.Seq != to {
				return fmt.Errorf("append to %s at %d: %+v, %w", name(i), from, ack, err)
			}
		}
		return nil
	})
}

// inTurn is onEachStore for a test that looks at the whole process.
func inTurn(t *testing.T, cfg node.Config, test func(t *testing.T, n *running)) {
	t.Run("sqlite", func(t *testing.T) { test(t, openNode(t, cfg)) })
	t.Run("postgres", func(t *testing.T) {
		cfg := cfg
		cfg.Database = pgtest.URL(t)
		test(t, openNode(t, cfg))
	})
}

func TestManyLongStreamsFitIntoALittleMemory(t *testing.T) {
	const (
		maxText = 4 << 20
		piece   = 32 << 10 // units
		spare   = 20 << 20 // bytes: what the collector has not collected, requests, readers
	)
	inTurn(t, node.Config{MaxText: maxText, Limits: router.Limits{DurablePoll: 50 * time.Millisecond}}, func(t *testing.T, n *running) {
		l := &load{running: n, streams: 60, at: 4, units: 8 * piece}
		ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
		defer cancel()
		l.each(func(i int) error {
			_, err := n.client.Open(ctx, name(i), wire.Open{})
			return err
		})
		defer debug.SetGCPercent(debug.SetGCPercent(25)) // what is left is what is held
		peak := watchHeap()
		began := time.Now()
		for at := int64(0); at < l.units; at += piece {
			for range 4 {
				pause := time.Duration(rand.IntN(2)) * time.Second
				if err := l.read(ctx, rand.IntN(l.streams), rand.Int64N(at+1), pause); err != nil {
					t.Fatal(err)
				}
			}
			l.grow(ctx, at, at+piece)
			if used := n.metrics()["rillkeep_text_bytes"]; used > maxText+float64(l.streams)*2*piece {
				t.Errorf("%v bytes of text are in memory", used)
			}
		}
		snap := n.snapshot(name(7))
		if snap.Text != stretch(7, 0, l.units) || snap.Seq != l.units {
			t.Errorf("a snapshot of %d units, seq %d", plane.Units(snap.Text), snap.Seq)
		}
		l.each(func(i int) error {
			_, err := n.client.Close(ctx, name(i), wire.Close{})
			return err
		})
		if err := l.readers.Wait(); err != nil {
			t.Error(err)
		}
		grew := peak()
		t.Logf("%d streams of %d units in %v; the heap grew by %d MiB", l.streams, l.units, time.Since(began), grew>>20)
		if grew > maxText+spare {
			t.Errorf("the heap grew by %d MiB", grew>>20)
		}
		for _, i := range []int{0, l.streams / 2, l.streams - 1} {
			wantEnding(t, n, name(i), plane.StatusComplete, stretch(i, 0, l.units))
		}
		if used := n.metrics()["rillkeep_text_bytes"]; used > maxText {
			t.Errorf("%v bytes of text are in memory at the end", used)
		}
	})
}

func TestANodeFullOfTextSaysSo(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{MaxText: 100 << 10, Policy: patient()}, func(t *testing.T, n *running) {
		text := stretch(1, 0, 128<<10)
		n.open("m1")
		n.push("m1", 0, text)
		a := n.do(http.MethodPost, path("m2"), "")
		wantError(t, "open", a, http.StatusServiceUnavailable, "full")
		if a.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		n.flush("m1")
		n.open("m2")
		if snap := n.snapshot("m1"); snap.Text != text || snap.DurableSeq != 128<<10 {
			t.Errorf("a snapshot of %d bytes, %d durable", len(snap.Text), snap.DurableSeq)
		}
		if got := n.push("m1", 0, text); got != 128<<10 {
			t.Errorf("a repeat of the last delta was added: %d", got)
		}
		_, err := n.client.Append(t.Context(), "m1", 0, text[:100])
		if !errors.Is(err, plane.ErrConflict) {
			t.Errorf("a repeat of what can't be compared: %v", err)
		}
		r := n.reads("m1", "plane=live")
		if f, err := r.next(); err != nil || f.Kind != plane.KindStale || f.FloorSeq == 0 || f.DurableSeq != 128<<10 {
			t.Errorf("live: %+v, %v", f, err)
		}
		n.push("m1", 128<<10, "more")
		n.seal("m1")
		wantEnding(t, n, "m1", plane.StatusComplete, text+"more")
	})
}

// A pump acknowledges to the end, though its own text is given up before the
// acknowledging side has passed it.
func TestAPumpIsAcknowledgedWhileTextIsGivenUp(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{MaxText: node.MinMaxText}, func(t *testing.T, n *running) {
		const units = 2 << 20
		n.open("m1")
		p := n.pump("m1", "from=0", "text/plain")
		p.piece(stretch(1, 0, units))
		var line wire.PumpLine
		for line.DurableSeq < units {
			line = p.ack()
		}
		p.piece("done")
		p.finish()
		if last := p.last(); !last.Done || last.Seq != units+4 {
			t.Errorf("the last line is %+v", last)
		}
		n.seal("m1")
		wantEnding(t, n, "m1", plane.StatusComplete, stretch(1, 0, units)+"done")
	})
}

func TestNoTextIsCountedWhenNoStreamIsHosted(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{Linger: 10 * time.Millisecond}, func(t *testing.T, n *running) {
		for i := range 20 {
			n.whole(name(i), stretch(i, 0, 10_000))
		}
		await(t, "all have retired", n.retired)
		await(t, "nothing is counted", func() bool { return n.metrics()["rillkeep_text_bytes"] == 0 })
	})
}

// The least that may be set is enough for one stream to keep what it keeps in any
// case, however it has grown to it, and for others to open beside it.
func TestTheLeastMemoryForTextIsEnoughForAStream(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{MaxText: node.MinMaxText})
	n.open("idle")
	at := int64(0)
	for _, units := range []int{1, 700, 8 << 10, 1, 700, 16 << 10, 1, 300 << 10, 700} {
		for range 24 / max(1, units>>10) {
			at = n.push("idle", at, strings.Repeat("漢", units))
		}
		n.flush("idle")
		await(t, "there is room for another", func() bool { return n.metrics()["rillkeep_text_bytes"] <= float64(node.MinMaxText) })
	}
	n.open("another")
	n.push("another", 0, "text")
	for _, id := range []string{"idle", "another"} {
		n.seal(id)
	}
}
