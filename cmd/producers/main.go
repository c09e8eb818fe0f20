// Command producers measures what the deltas of many producers cost the node that
// has their streams. The node is a process of its own, with its store on this
// machine, and the producers send to it in several ways, in turn, several times:
//
//	pump-h2    a pump each, many of them on few HTTP/2 connections
//	pump-h1    a pump each, on an HTTP/1.1 connection of its own
//	append-h1  a request for each delta, on an HTTP/1.1 connection of its own
//	append-h2  a request for each delta, on few HTTP/2 connections
//
//	go run ./cmd/producers -producers 1000 -rate 50 -length 5s -rounds 3
//
// A delta is five characters. A producer sends its next one when that is due, and
// where it is late it leaves out those that were due meanwhile: so the rate that
// was reached is printed beside what was asked. Where it is lower, node and
// producers together had no more of the machine; the figures are then of a node
// that has all its hands full, and a pump's are lower, as it finds several deltas
// at once.
//
// Each line says what the node used for a delta, its checkpoint included, and how
// long it took from the send to the first acknowledgement whose seq (accepted),
// and whose durableSeq (durable), covers the delta: a pump is acknowledged when
// text becomes durable, an append at once. Others is how many processors the rest
// of the machine was busy with meanwhile: with more than a few hundredths, measure
// again.
//
// The last line is what a delta of pump-h2 costs the node, divided by what one of
// the cheaper way to append does. All figures are medians. CPU is read from /proc,
// so it runs on Linux only.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		exit(serve(os.Args[2:]))
	}
	var c comparison
	flag.IntVar(&c.load.producers, "producers", 1000, "producers at once, each with a stream of its own")
	flag.IntVar(&c.load.rate, "rate", 50, "deltas a second of each producer")
	flag.DurationVar(&c.load.length, "length", 5*time.Second, "length of a measurement")
	flag.IntVar(&c.load.connections, "connections", 4, "HTTP/2 connections that the producers share")
	flag.IntVar(&c.rounds, "rounds", 3, "measurements of each way")
	flag.StringVar(&c.profile, "profile", "", "file for a CPU profile of the node")
	only := flag.String("ways", strings.Join(names(), ","), "ways to measure")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exit(c.run(ctx, strings.Split(*only, ",")))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "producers:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
