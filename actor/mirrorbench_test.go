package actor_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
)

// BenchmarkReaders is one delta to all readers of a stream, each of whom takes it
// before the next comes: where the stream is, and on a node that attaches it.
func BenchmarkReaders(b *testing.B) {
	for _, readers := range []int{1, 1000} {
		for _, where := range []string{"stream", "mirror"} {
			b.Run(fmt.Sprintf("%s/readers=%d", where, readers), func(b *testing.B) {
				policy := plane.DefaultPolicy()
				policy.MaxUnits = 1 << 40
				owner := readerSystem(b, policy, nil)
				at := owner
				if where == "mirror" {
					at = readerSystem(b, policy, newWire(owner).relay())
				}
				s, err := owner.Open(b.Context(), plane.Claim{ID: "m1"})
				if err != nil {
					b.Fatal(err)
				}
				cursors := make([]*plane.Cursor, readers)
				for i := range cursors {
					if cursors[i], err = at.Subscribe(b.Context(), actor.Access{Principal: "u1", StreamID: "m1"}); err != nil {
						b.Fatal(err)
					}
					chunkOf(b, cursors[i], plane.KindOpen)
				}
				b.ReportAllocs()
				for b.Loop() {
					if err := s.Push(b.Context(), "token"); err != nil {
						b.Fatal(err)
					}
					for _, c := range cursors {
						chunkOf(b, c, plane.KindChunk)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*readers), "ns/frame")
			})
		}
	}
}

func readerSystem(b *testing.B, policy plane.Policy, relay *actor.Relay) *actor.System {
	b.Helper()
	keep := int64(plane.DefaultRetain)
	y, err := actor.New(actor.Config{
		Node: "n/1", Relay: relay,
		Plane: plane.Config{
			Commit: func(context.Context, plane.Change) (plane.Answer, error) { return plane.Answer{}, nil },
			Retain: &keep, Budget: plane.NewBudget(1 << 40), Policy: policy,
		},
		Authorize: func(context.Context, actor.Access) (bool, error) { return true, nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = y.Close(context.Background()) })
	return y
}

// chunkOf waits for a frame of a kind and encodes it.
func chunkOf(b *testing.B, c *plane.Cursor, kind plane.Kind) {
	ctx, cancel := b.Context(), context.CancelFunc(nil)
	for {
		f, ok, more := c.Poll()
		switch {
		case ok:
			f.Encoded(plane.AppendJSON)
			if f.Kind == kind {
				return
			}
		case more == nil:
			b.Fatal("the stream has ended")
		default:
			if cancel == nil {
				ctx, cancel = context.WithTimeout(ctx, time.Minute)
				defer cancel()
			}
			select {
			case <-more:
			case <-ctx.Done():
				b.Fatal(ctx.Err())
			}
		}
	}
}
