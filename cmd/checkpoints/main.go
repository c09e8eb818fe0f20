// Command checkpoints measures what checkpoints cost in PostgreSQL: the obvious
// way, a transaction of a guarded insert and a compare-and-swap update and then
// a read, for each stream by itself, beside this store's. Both run on a private
// server with default settings, in turn, several times; the figures are medians.
//
//	go run ./cmd/checkpoints -length 5s -rounds 3
//
// The last line is ours divided by the obvious way, checkpoints a second, at
// each number of concurrent streams. With -product it measures instead the
// product at its own rate: many streams with a producer each and the default
// policy, and how long text takes to become durable. CPU is read from /proc, so
// that runs on Linux only.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"time"

	"rillkeep.dev/rillkeep/store/postgres/pgtest/server"
)

func main() {
	var c comparison
	var p product
	flag.DurationVar(&c.length, "length", 5*time.Second, "length of a measurement")
	c.at = []int{1, 64, 512}
	flag.Func("at", "a number of concurrent streams to measure with, instead of 1, 64 and 512", func(text string) error {
		n, err := strconv.Atoi(text)
		c.at = []int{n}
		return err
	})
	flag.IntVar(&c.rounds, "rounds", 3, "measurements of each way")
	seals := flag.Bool("seal", false, "measure seals instead")
	atItsRate := flag.Bool("product", false, "measure the product at its own rate instead")
	flag.IntVar(&p.streams, "streams", 10_000, "streams of -product")
	flag.IntVar(&p.rate, "rate", 50, "deltas a second of each stream of -product")
	flag.DurationVar(&p.length, "product-length", time.Minute, "length of -product")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	measure := c.run
	switch {
	case *atItsRate:
		measure = p.run
	case *seals:
		measure = c.seals
	}
	if err := onServer(ctx, measure); err != nil {
		fmt.Fprintln(os.Stderr, "checkpoints:", err)
		os.Exit(1)
	}
}

// onServer measures on a server of its own.
func onServer(ctx context.Context, measure func(context.Context, *server.Server) error) (err error) {
	server, err := server.Start(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if stopped := server.Stop(); err == nil {
			err = stopped
		}
	}()
	return measure(ctx, server)
}
