package plane_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

// benchStream opens a stream whose application takes every change at once. It
// keeps what is durable too, unless retain says how much of it.
func benchStream(b *testing.B, retain int64) *plane.Stream {
	b.Helper()
	policy := plane.DefaultPolicy()
	policy.MaxUnits = 1 << 40
	s, err := plane.Open(b.Context(), plane.Config{
		Commit: func(context.Context, plane.Change) (plane.Answer, error) { return plane.Answer{}, nil },
		Retain: &retain,
		Budget: plane.NewBudget(1 << 40),
		Policy: policy,
	}, plane.Claim{ID: "s"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Abandon(context.Background()) })
	return s
}

// drain takes all that is ready for c, as a connection does, and says how many
// frames that was.
func drain(c *plane.Cursor) (frames int) {
	for {
		f, ok, more := c.Poll()
		if ok {
			f.Encoded(plane.AppendJSON)
			frames++
		}
		if more != nil {
			return frames
		}
	}
}

// BenchmarkPush is one delta, handed to as many readers as the name says, each
// of whom takes it before the next comes.
func BenchmarkPush(b *testing.B) {
	for _, readers := range []int{0, 1, 100, 10_000} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			s := benchStream(b, plane.DefaultRetain)
			cursors := make([]*plane.Cursor, readers)
			for i := range cursors {
				cursors[i] = s.Join(0)
				drain(cursors[i])
			}
			frames := 0
			mallocs := countMallocs()
			for b.Loop() {
				if err := s.Push(b.Context(), "token"); err != nil {
					b.Fatal(err)
				}
				for _, c := range cursors {
					frames += drain(c)
				}
			}
			allocs := float64(mallocs())
			b.ReportMetric(allocs/float64(b.N), "allocs/op")
			if frames > 0 {
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(frames), "ns/frame")
				b.ReportMetric(allocs/float64(frames), "allocs/frame")
			}
		})
	}
}

// countMallocs returns how many allocations there are from now on.
func countMallocs() func() uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	return func() uint64 {
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs
	}
}

// benchTexts are a delta of each kind of text.
var benchTexts = []struct{ name, delta string }{
	{"ascii", "the quick brown fox "},
	{"mixed", "größte 漢字 und 😀 ok "},
}

// BenchmarkJoin is a reader who comes to a text of a million bytes at some
// offset, and takes its first chunk.
func BenchmarkJoin(b *testing.B) {
	for _, c := range benchTexts {
		b.Run(c.name, func(b *testing.B) {
			s := benchStream(b, 1<<40)
			if err := s.Push(b.Context(), strings.Repeat(c.delta, 1_000_000/len(c.delta))); err != nil {
				b.Fatal(err)
			}
			end := s.State().Seq
			random := rand.New(rand.NewPCG(1, 2))
			b.ReportAllocs()
			for b.Loop() {
				r := s.Join(random.Int64N(end))
				_, _, _ = r.Poll()
				if f, ok, _ := r.Poll(); !ok || f.Kind != plane.KindChunk {
					b.Fatalf("%+v", f)
				}
				r.Close()
			}
		})
	}
}

// BenchmarkReplay is a reader who takes a whole text of a million bytes.
func BenchmarkReplay(b *testing.B) {
	for _, c := range benchTexts {
		b.Run(c.name, func(b *testing.B) {
			s := benchStream(b, 1<<40)
			if err := s.Push(b.Context(), strings.Repeat(c.delta, 1_000_000/len(c.delta))); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(1_000_000)
			b.ReportAllocs()
			for b.Loop() {
				r := s.Join(0)
				for {
					if _, ok, _ := r.Poll(); !ok {
						break
					}
				}
				r.Close()
			}
		})
	}
}

// BenchmarkWaitingCursor is what a reader costs who is at the tip and waits.
func BenchmarkWaitingCursor(b *testing.B) {
	const readers = 100_000
	for b.Loop() {
		s := benchStream(b, plane.DefaultRetain)
		cursors := make([]*plane.Cursor, readers)
		before := liveBytes()
		for i := range cursors {
			cursors[i] = s.Join(0)
			drain(cursors[i])
		}
		b.ReportMetric(float64(liveBytes()-before)/readers, "bytes/reader")
		runtime.KeepAlive(cursors)
	}
}

// liveBytes is the memory that is in use after a collection.
func liveBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

func BenchmarkUnits(b *testing.B) {
	for _, c := range benchTexts {
		for _, size := range []int{len(c.delta), 16 << 10} {
			b.Run(fmt.Sprintf("%s/%d", c.name, size), func(b *testing.B) {
				s := strings.Repeat(c.delta, size/len(c.delta))
				b.SetBytes(int64(len(s)))
				for b.Loop() {
					plane.Units(s)
				}
			})
		}
	}
}

// BenchmarkPushAt is a producer that says where each delta starts: once each,
// and each a second time.
func BenchmarkPushAt(b *testing.B) {
	for _, times := range []int{1, 2} {
		b.Run(fmt.Sprintf("times=%d", times), func(b *testing.B) {
			s := benchStream(b, plane.DefaultRetain)
			b.ReportAllocs()
			for from := int64(0); b.Loop(); from += 5 {
				for range times {
					if err := s.PushAt(b.Context(), from, "token"); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkFollow is a delta to readers that wait in goroutines of their own, to
// the last of them.
func BenchmarkFollow(b *testing.B) {
	for _, readers := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			s := benchStream(b, plane.DefaultRetain)
			ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
			defer cancel()
			arrived := make(chan struct{}, readers)
			for range readers {
				c := s.Join(0)
				go func() {
					for f, err := range c.Frames(ctx) {
						if err != nil {
							return
						}
						f.Encoded(plane.AppendJSON)
						if f.Kind == plane.KindChunk {
							arrived <- struct{}{}
						}
					}
				}()
			}
			for b.Loop() {
				if err := s.Push(ctx, "token"); err != nil {
					b.Fatal(err)
				}
				for range readers {
					<-arrived
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*readers), "ns/frame")
		})
	}
}
