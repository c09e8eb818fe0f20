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

	"rillkeep.dev/rillkeep/cmd/internal/measure"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		exit(serve(os.Args[2:]))
	}
	var l load
	flag.IntVar(&l.readers, "readers", 1000, "readers of the one stream")
	flag.IntVar(&l.rate, "rate", 50, "deltas a second")
	flag.DurationVar(&l.length, "length", 8*time.Second, "length of a measurement")
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
func compare(ctx context.Context, l load, rounds int) error {
	got := map[string][]result{}
	for range rounds {
		for _, kind := range []string{"floor", "node"} {
			r, err := l.measure(ctx, kind)
			if err != nil {
				return fmt.Errorf("measure %s: %w", kind, err)
			}
			fmt.Printf("%-5s readers=%d sent=%d delivered=%d p50=%v p99=%v cpu/event=%v rss/reader=%.1fKiB\n",
				kind, l.readers, r.sent, r.delivered, r.p50.Round(10*time.Microsecond), r.p99.Round(10*time.Microsecond),
				r.cpu.Round(10*time.Nanosecond), r.rss)
			got[kind] = append(got[kind], r)
		}
	}
	ratio := func(of func(result) float64) float64 {
		return measure.Median(got["node"], of) / measure.Median(got["floor"], of)
	}
	fmt.Printf("memory per idle reader: %.1f KiB\n", measure.Median(got["node"], func(r result) float64 { return r.rss }))
	fmt.Printf("fanout ratio: cpu=%.2f p99=%.2f\n",
		ratio(func(r result) float64 { return float64(r.cpu) }), ratio(func(r result) float64 { return float64(r.p99) }))
	return nil
}
