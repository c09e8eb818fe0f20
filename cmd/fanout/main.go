// Command fanout measures what one live stream with many readers costs a node,
// beside a floor: the least that a Go server can do for the same load, without a
// store, offsets, resuming or limits. Both are started in turn, several times,
// on loopback; the figures are medians.
//
//	go run ./cmd/fanout -readers 1000 -rate 50 -length 8s -rounds 3
//
// The last line is node divided by floor: CPU per delivered event, and the 99th
// percentile of the time from the producer's send to the reader's socket. CPU and
// memory are read from /proc, so it runs on Linux only.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"rillkeep.dev/rillkeep/cmd/internal/load"
	"rillkeep.dev/rillkeep/cmd/internal/measure"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		exit(serve(os.Args[2:]))
	}
	var l load.Load
	flag.IntVar(&l.Readers, "readers", 1000, "readers of the one stream")
	flag.IntVar(&l.Rate, "rate", 50, "deltas a second")
	flag.DurationVar(&l.Length, "length", 8*time.Second, "length of a measurement")
	rounds := flag.Int("rounds", 3, "measurements of each server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exit(compare(ctx, l, *rounds))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "fanout:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// compare measures both servers in turn and prints the ratio of their medians.
func compare(ctx context.Context, l load.Load, rounds int) error {
	got := map[string][]load.Result{}
	for range rounds {
		for _, kind := range []string{"floor", "node"} {
			r, err := run(ctx, l, kind)
			if err != nil {
				return fmt.Errorf("measure %s: %w", kind, err)
			}
			fmt.Printf("%-5s readers=%d sent=%d delivered=%d p50=%v p99=%v cpu/event=%v rss/reader=%.1fKiB\n",
				kind, l.Readers, r.Sent, r.Delivered, r.P50.Round(10*time.Microsecond), r.P99.Round(10*time.Microsecond),
				r.CPU[0].Round(10*time.Nanosecond), r.Memory[0])
			got[kind] = append(got[kind], r)
		}
	}
	ratio := func(of func(load.Result) float64) float64 {
		return measure.Median(got["node"], of) / measure.Median(got["floor"], of)
	}
	fmt.Printf("memory per idle reader: %.1f KiB\n", measure.Median(got["node"], func(r load.Result) float64 { return r.Memory[0] }))
	fmt.Printf("fanout ratio: cpu=%.2f p99=%.2f\n",
		ratio(func(r load.Result) float64 { return float64(r.CPU[0]) }), ratio(func(r load.Result) float64 { return float64(r.P99) }))
	return nil
}

// run puts the load on a fresh server of this kind.
func run(ctx context.Context, l load.Load, kind string) (r load.Result, err error) {
	server, err := measure.Start(ctx, kind)
	if err != nil {
		return r, err
	}
	defer func() {
		if stopped := server.Stop(); err == nil {
			err = stopped
		}
	}()
	stream := server.URL + "/v1/streams/load"
	return l.Run(ctx, []load.Stream{{Producer: stream, Reader: stream}}, []int{server.PID})
}
