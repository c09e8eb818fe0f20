package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/node"
)

// Whatever waits for a node that says nothing ends with the producer's context, at once.
func TestWhoWaitsForASilentNodeEndsWithTheProducer(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Policy: manual()})
	for name, wait := range map[string]func(context.Context, *client.Producer) error{
		"push":  func(ctx context.Context, p *client.Producer) error { return p.Push(ctx, "more") },
		"write": func(_ context.Context, p *client.Producer) error { _, err := p.Write([]byte("more")); return err },
		"pump":  func(ctx context.Context, p *client.Producer) error { return p.Pump(ctx, given("more")) },
		"flush": func(ctx context.Context, p *client.Producer) error { return p.Flush(ctx) },
		"close": func(ctx context.Context, p *client.Producer) error { _, err := p.Close(ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			way := openProxy(t, n.Addr().String(), unlimited)
			c := connect(t, client.Config{Server: way.url()})
			why := errors.New("no more")
			ctx, cancel := context.WithCancelCause(within(t, patience))
			defer cancel(nil)
			p, err := c.Produce(ctx, name, client.Producing{Backlog: 4})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Push(ctx, "text"); err != nil {
				t.Fatal(err)
			}
			way.freeze()
			answer := make(chan error, 1)
			go func() { answer <- wait(t.Context(), p) }()
			select {
			case err := <-answer:
				t.Fatalf("it did not wait: %v", err)
			case <-time.After(100 * time.Millisecond):
			}
			cancel(why)
			select {
			case err := <-answer:
				if !errors.Is(err, why) {
					t.Error(err)
				}
			case <-time.After(10 * time.Second):
				t.Error("it goes on")
				way.thaw()
				<-answer
			}
		})
	}
}
