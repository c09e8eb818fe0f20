package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log"
	"os"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
)

// A producer pumps a response into a stream, and a reader follows it.
func Example() {
	server, stop := serve()
	defer stop()
	ctx := context.Background()
	c, err := client.New(client.Config{Server: server})
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

// A producer goes on wherever its stream does, and its node and connections may be
// lost meanwhile.
func ExampleProducer() {
	server, stop := serve()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // all of its life
	defer cancel()

	// Others are more nodes of the cluster, if no load balancer stands before them.
	c, err := client.New(client.Config{Server: server, Others: nil})
	if err != nil {
		log.Fatal(err)
	}
	out, err := c.Produce(ctx, "m2", client.Producing{Producer: "chat-server-7", Patience: 30 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	if err := out.Push(ctx, "Hello, "); err != nil { // waits only while too much is not durable
		log.Fatal(err)
	}
	fmt.Fprintf(out, "stream no. %d.", 2)  // it is an io.Writer, too
	if err := out.Flush(ctx); err != nil { // all of it is durable now
		log.Fatal(err)
	}
	sealed, err := out.Close(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sealed.Status, sealed.DurableSeq)
	// Output:
	// complete 20
}

// Pump pushes what an iterator gives, and says when that was what failed.
func ExampleProducer_Pump() {
	server, stop := serve()
	defer stop()
	ctx := context.Background()
	c, err := client.New(client.Config{Server: server})
	if err != nil {
		log.Fatal(err)
	}
	out, err := c.Produce(ctx, "m3", client.Producing{})
	if err != nil {
		log.Fatal(err)
	}
	model := func(yield func(string, error) bool) {
		_ = yield("Half of", nil) && yield("", errors.New("the model is gone"))
	}
	var failed *client.SourceError
	if err := out.Pump(ctx, model); errors.As(err, &failed) {
		sealed, err := out.Fail(ctx, failed.Error())
		fmt.Println(sealed.Status, sealed.Seq, err)
	}
	// Output:
	// error 7 <nil>
}

// serve opens a node, and answers its URL.
func serve() (url string, stop func()) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	n, err := node.Open(context.Background(), node.Config{Listen: "127.0.0.1:0", Data: dir})
	if err != nil {
		log.Fatal(err)
	}
	return n.URL(), func() {
		_ = n.Close() // it has nothing left to do
		_ = os.RemoveAll(dir)
	}
}
