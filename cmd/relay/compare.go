package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"rillkeep.dev/rillkeep/cmd/internal/load"
	"rillkeep.dev/rillkeep/cmd/internal/measure"
)

// comparison is of the ways to read a stream.
type comparison struct {
	load   load.Load
	many   int // streams
	rounds int
}

// ways are where readers go.
var ways = []struct {
	name string
	to   func(*cluster) *measure.Child
}{
	{"owner", func(c *cluster) *measure.Child { return c.owner }},
	{"attach", func(c *cluster) *measure.Child { return c.other }},
	{"proxy", func(c *cluster) *measure.Child { return c.proxy }},
}

// scene is how many streams there are, and how many readers each has.
type scene struct{ streams, readers int }

func (s scene) String() string { return fmt.Sprintf("%dx%d", s.streams, s.readers) }

func (cmp comparison) run(ctx context.Context) (err error) {
	c, err := startCluster(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	fmt.Println("streams x readers of each; CPU is for an event that a reader got")
	var last results
	for _, s := range []scene{{1, 1}, {cmp.many, 1}, {1, cmp.load.Readers}} {
		if last, err = cmp.play(ctx, c, s); err != nil {
			return err
		}
		for _, way := range ways {
			fmt.Printf("%v %-6s cpu=%v (owner %v + between %v) p50=%v p99=%v others=%.2f\n", s, way.name, last.cpu(way.name, total),
				last.cpu(way.name, owner), last.cpu(way.name, between), last.p50(way.name), last.p99(way.name),
				measure.Median(last[way.name], func(r load.Result) float64 { return r.Others }))
		}
	}
	fmt.Println("cpu of the ratio: all that both nodes use, readers at the other one / readers at the owner")
	fmt.Printf("cluster ratio: cpu=%.2f added_p50_ms=%.2f\n",
		float64(last.cpu("attach", total))/float64(last.cpu("owner", total)),
		(last.p50("attach")-last.p50("owner")).Seconds()*1000)
	return nil
}

// play measures all ways in turn.
func (cmp comparison) play(ctx context.Context, c *cluster, s scene) (results, error) {
	got := results{}
	l := cmp.load
	l.Readers = s.readers
	for range cmp.rounds {
		for _, way := range ways {
			r, err := measured(ctx, c, l, s.streams, way.to(c))
			if err != nil {
				return nil, fmt.Errorf("measure %s: %w", way.name, err)
			}
			fmt.Printf("  %v %-6s sent=%d delivered=%d owner=%v between=%v p50=%v p99=%v others=%.2f\n",
				s, way.name, r.Sent, r.Delivered, owner(r).Round(fine), between(r).Round(fine),
				r.P50.Round(precision), r.P99.Round(precision), r.Others)
			got[way.name] = append(got[way.name], r)
		}
	}
	return got, nil
}

// measured puts the load on new streams of the owner's, with readers elsewhere.
func measured(ctx context.Context, c *cluster, l load.Load, n int, readers *measure.Child) (load.Result, error) {
	streams := make([]load.Stream, n)
	for i := range streams {
		path := "/v1/streams/" + c.stream()
		streams[i] = load.Stream{Producer: c.owner.URL + path, Reader: readers.URL + path}
	}
	r, err := l.Run(ctx, streams, []int{c.owner.PID, c.other.PID, c.proxy.PID})
	if err != nil {
		return r, err
	}
	for _, s := range streams {
		if err := load.Post(ctx, http.DefaultClient, s.Producer+"/close", "application/json", "{}"); err != nil {
			return r, err
		}
	}
	return r, nil
}

// What is printed of a time, and of CPU.
const (
	precision = 10 * time.Microsecond
	fine      = 10 * time.Nanosecond
)

// results are those of the ways.
type results map[string][]load.Result

func owner(r load.Result) time.Duration   { return r.CPU[0] }
func between(r load.Result) time.Duration { return r.CPU[1] + r.CPU[2] } // one of the two has nothing to do
func total(r load.Result) time.Duration   { return owner(r) + between(r) }

func (rs results) median(way string, of func(load.Result) time.Duration) time.Duration {
	return time.Duration(measure.Median(rs[way], func(r load.Result) float64 { return float64(of(r)) }))
}

func (rs results) cpu(way string, of func(load.Result) time.Duration) time.Duration {
	return rs.median(way, of).Round(fine)
}

func (rs results) p50(way string) time.Duration {
	return rs.median(way, func(r load.Result) time.Duration { return r.P50 }).Round(precision)
}

func (rs results) p99(way string) time.Duration {
	return rs.median(way, func(r load.Result) time.Duration { return r.P99 }).Round(precision)
}
