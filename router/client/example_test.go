package client_test

import (
	"context"
	"fmt"
	"iter"
	"log"
	"os"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
)

// A producer pumps a response into a stream, and a reader follows it.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	n, err := node.Open(ctx, node.Config{Listen: "127.0.0.1:0", Data: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()

	c, err := client.New(client.Config{Server: n.URL()})
	if err != nil {
		log.Fatal(err)
	}
	opened, err := c.Open(ctx, "m1", wire.Open{})
	if err != nil {
		log.Fatal(err)
	}
	model := func(context.Context) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			_ = yield("Hello, ", nil) && yield("stream.", nil)
		}
	}
	if _, err := c.Pump(ctx, "m1", opened.Seq, model, nil); err != nil {
		log.Fatal(err)
	}
	if _, err := c.Close(ctx, "m1", wire.Close{}); err != nil {
		log.Fatal(err)
	}

	for f, err := range c.Follow(ctx, "m1", 0, "") {
		switch {
		case err != nil:
			log.Fatal(err)
		case f.Kind == plane.KindChunk:
			fmt.Println(f.Text)
		case f.Kind == plane.KindEnd:
			fmt.Println(f.Status)
		}
	}
	// Output:
	// Hello, stream.
	// complete
}
