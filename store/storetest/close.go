package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

func testClose(t *testing.T, open func(testing.TB) backed) {
	each(t, open, map[string]func(*testing.T, backed){
		"is the end of all calls": func(t *testing.T, s backed) {
			opened(t, s, "s")
			if err := s.Ping(bounded(t)); err != nil {
				t.Error(err)
			}
			for range 2 {
				if err := s.Close(bounded(t)); err != nil {
					t.Error(err)
				}
			}
			for name, call := range afterwards {
				if err := call(bounded(t), s); err == nil || errors.Is(err, plane.ErrNotFound) {
					t.Errorf("%s: %v", name, err)
				}
			}
		},
		"leaves no call without an answer": func(t *testing.T, s backed) {
			ctx := bounded(t)
			var all sync.WaitGroup
			for n := range 20 {
				claim := plane.Claim{ID: fmt.Sprint(n), Node: node}
				all.Go(func() {
					// Before the closing, in the middle of it or after it.
					if row, err := s.Open(ctx, claim); err == nil && row.Status != plane.StatusStreaming || ctx.Err() != nil {
						t.Errorf("got %+v, %v", row, err)
					}
				})
			}
			if err := s.Close(ctx); err != nil {
				t.Error(err)
			}
			all.Wait()
		},
	})
}

// afterwards are calls of a store that is closed.
var afterwards = map[string]func(context.Context, store.Store) error{
	"ping":   func(ctx context.Context, s store.Store) error { return s.Ping(ctx) },
	"read":   func(ctx context.Context, s store.Store) error { _, err := s.Read(ctx, "s"); return err },
	"get":    func(ctx context.Context, s store.Store) error { _, err := s.Get(ctx, "s"); return err },
	"text":   func(ctx context.Context, s store.Store) error { _, err := s.Text(ctx, "s", 0, 0); return err },
	"list":   func(ctx context.Context, s store.Store) error { _, err := s.List(ctx, store.Query{}); return err },
	"cancel": func(ctx context.Context, s store.Store) error { _, err := s.Cancel(ctx, "s"); return err },
	"disown": func(ctx context.Context, s store.Store) error {
		_, err := s.Disown(ctx, "s", "n1/boot1/1", 1)
		return err
	},
	"adopt": func(ctx context.Context, s store.Store) error {
		_, err := s.Adopt(ctx, "s", "/1/1", "n1/boot1")
		return err
	},
	"take over": func(ctx context.Context, s store.Store) error {
		_, err := s.TakeOver(ctx, "n1/boot1/1", plane.Claim{ID: "s", Node: "n1/boot2"})
		return err
	},
}
