package actor_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
)

// instant is a store that takes everything at once and keeps nothing, so that
// what is measured is the system alone.
type instant struct{}

func (instant) Open(_ context.Context, c plane.Claim) (plane.Row, error) {
	return plane.Row{Status: plane.StatusStreaming, Token: c.Node + "/1", Epoch: 1}, nil
}

func (instant) Append(_ context.Context, s plane.Slice) (plane.Row, error) {
	return plane.Row{Seq: s.Seq, Status: plane.StatusStreaming, Token: s.Token, Epoch: 1}, nil
}

func (instant) Seal(_ context.Context, s plane.Seal) (plane.Row, error) {
	return plane.Row{Seq: s.Seq, Status: s.Status, Token: s.Token, Epoch: 1}, nil
}

func (instant) Read(context.Context, string) (plane.Row, error) {
	return plane.Row{}, plane.ErrNoReadBack
}

func benchSystem(b *testing.B) *actor.System {
	b.Helper()
	y, err := actor.New(actor.Config{
		Plane:     plane.Config{Store: instant{}},
		Node:      "node/1",
		Authorize: func(context.Context, actor.Access) (bool, error) { return true, nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = y.Close(context.Background()) })
	return y
}

// fill opens streams on y, each with the text.
func fill(b *testing.B, y *actor.System, streams int, text string) {
	b.Helper()
	for i := range streams {
		s, err := y.Open(b.Context(), plane.Claim{ID: fmt.Sprintf("stream-%d", i)})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Push(b.Context(), text); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkIdleStream is what an open stream costs in memory that nobody pushes
// to or reads, with a text of the length that the name says.
func BenchmarkIdleStream(b *testing.B) {
	const streams = 100_000
	for _, length := range []int{5, 1000} {
		b.Run(fmt.Sprintf("text=%d", length), func(b *testing.B) {
			for b.Loop() {
				before := liveBytes()
				y := benchSystem(b)
				fill(b, y, streams, strings.Repeat("x", length))
				b.ReportMetric(float64(liveBytes()-before)/streams, "bytes/stream")
				runtime.KeepAlive(y)
			}
		})
	}
}

// liveBytes is the memory that is in use after a collection, stacks included.
func liveBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// BenchmarkStream is the look-up of an owned stream, by all processors at once.
func BenchmarkStream(b *testing.B) {
	y := benchSystem(b)
	fill(b, y, 10_000, "text")
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, ok := y.Stream("stream-4711"); !ok {
				b.Error("not found")
				return
			}
		}
	})
}

// BenchmarkSubscribe is a reader who comes and goes, where the stream is and
// where it is not.
func BenchmarkSubscribe(b *testing.B) {
	for name, id := range map[string]string{"hosted": "stream-4711", "absent": "stream-x"} {
		b.Run(name, func(b *testing.B) {
			y := benchSystem(b)
			fill(b, y, 10_000, "text")
			b.ReportAllocs()
			for b.Loop() {
				c, err := y.Subscribe(b.Context(), actor.Access{StreamID: id})
				if err != nil {
					b.Fatal(err)
				}
				c.Close()
			}
		})
	}
}

// BenchmarkOpenClose is the life of an empty stream.
func BenchmarkOpenClose(b *testing.B) {
	y, err := actor.New(actor.Config{
		Plane:     plane.Config{Store: instant{}},
		Node:      "node/1",
		Linger:    time.Nanosecond,
		Authorize: func(context.Context, actor.Access) (bool, error) { return true, nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		s, err := y.Open(b.Context(), plane.Claim{ID: fmt.Sprint(n)})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
