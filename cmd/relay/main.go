// Command relay measures what a stream costs that is read through a node which
// does not own it. Two nodes share a store on this machine, and streams of the
// first one are read in three ways, in turn, several times: one stream by one
// reader, many by one reader each, and one by many:
//
//	owner   from the node that owns it
//	attach  from the other node, which is attached to it once for all its readers
//	proxy   through net/http/httputil's reverse proxy, a connection of its own to
//	        the owner for each reader: the obvious way
//
//	go run ./cmd/relay -readers 1000 -streams 200 -rate 20 -length 5s -rounds 5
//
// Each line says what the owner and who is between (the other node, or the proxy)
// used for a delivered event, and how long events took from the producer's send
// to the reader's socket. The producer always pushes to the owner, and the store
// is the owner's work. Others is how many processors the rest of the machine was
// busy with meanwhile: with more than a few hundredths, measure again.
//
// The last line is of the stream with many readers: what both nodes use for an
// event when it is read through the other one, divided by what they use when it is
// read from the owner; and what the other node adds to the median time. What the
// nodes use for themselves, gossip and the like, is part of both. All figures are
// medians. CPU is read from /proc, so it runs on Linux only.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		exit(serve(os.Args[2:]))
	}
	var c comparison
	flag.IntVar(&c.load.Readers, "readers", 1000, "readers of the stream that has many")
	flag.IntVar(&c.many, "streams", 200, "streams with one reader each")
	flag.IntVar(&c.load.Rate, "rate", 20, "deltas a second of each stream")
	flag.DurationVar(&c.load.Length, "length", 5*time.Second, "length of a measurement")
	flag.IntVar(&c.rounds, "rounds", 5, "measurements of each way")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exit(c.run(ctx))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
