package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"rillkeep.dev/rillkeep/cmd/internal/measure"
)

// ways are how producers send.
var ways = []way{
	{"pump-h2", true, 2},
	{"pump-h1", true, 1},
	{"append-h1", false, 1},
	{"append-h2", false, 2},
}

type way struct {
	name  string
	pumps bool
	major int // of HTTP's version
}

func names() (all []string) {
	for _, w := range ways {
		all = append(all, w.name)
	}
	return all
}

// comparison is of the ways.
type comparison struct {
	load    load
	rounds  int
	profile string
}

func (cmp comparison) run(ctx context.Context, only []string) (err error) {
	node, err := measure.Start(ctx, "node", cmp.profile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Stop()) }()
	got := map[string][]result{}
	for range cmp.rounds {
		for _, w := range ways {
			if !slices.Contains(only, w.name) {
				continue
			}
			r, err := cmp.load.run(ctx, node, w)
			if err != nil {
				return fmt.Errorf("measure %s: %w", w.name, err)
			}
			fmt.Printf("  %-9s %v\n", w.name, r)
			got[w.name] = append(got[w.name], r)
		}
	}
	fmt.Printf("%d producers x %d/s: CPU is the node's for a delta\n", cmp.load.producers, cmp.load.rate)
	for _, w := range ways {
		if rs := got[w.name]; len(rs) > 0 {
			fmt.Printf("%-9s %v\n", w.name, median(rs))
		}
	}
	if pump, a1, a2 := got["pump-h2"], got["append-h1"], got["append-h2"]; len(pump) > 0 && len(a1) > 0 && len(a2) > 0 {
		pump, request := micros(median(pump).cpu), min(micros(median(a1).cpu), micros(median(a2).cpu))
		fmt.Printf("producers: pump_h2_cpu_us=%.1f append_cpu_us=%.1f ratio=%.2f\n", pump, request, pump/request)
	}
	return nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// result is how a measurement went.
type result struct {
	reached  float64       // deltas a second, of all producers
	cpu      time.Duration // of the node, per delta
	accepted delays
	durable  delays
	others   float64 // processors that neither the node nor this process used
}

func (r result) String() string {
	return fmt.Sprintf("reached=%.0f/s cpu=%v accepted %v durable %v others=%.2f",
		r.reached, r.cpu.Round(10*time.Nanosecond), r.accepted, r.durable, r.others)
}

// delays are those of acknowledgements.
type delays struct{ p50, p99 time.Duration }

func delaysOf(list []time.Duration) delays {
	if len(list) == 0 {
		return delays{}
	}
	slices.Sort(list)
	return delays{list[len(list)/2], list[len(list)*99/100]}
}

func (d delays) String() string {
	return fmt.Sprintf("p50=%v p99=%v", d.p50.Round(10*time.Microsecond), d.p99.Round(10*time.Microsecond))
}

// median is that of each figure by itself.
func median(rs []result) result {
	of := func(read func(result) float64) float64 { return measure.Median(rs, read) }
	span := func(read func(result) time.Duration) time.Duration {
		return time.Duration(of(func(r result) float64 { return float64(read(r)) }))
	}
	return result{
		reached: of(func(r result) float64 { return r.reached }),
		cpu:     span(func(r result) time.Duration { return r.cpu }),
		accepted: delays{
			span(func(r result) time.Duration { return r.accepted.p50 }),
			span(func(r result) time.Duration { return r.accepted.p99 }),
		},
		durable: delays{
			span(func(r result) time.Duration { return r.durable.p50 }),
			span(func(r result) time.Duration { return r.durable.p99 }),
		},
		others: of(func(r result) float64 { return r.others }),
	}
}
