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

func (cmp comparison) run(ctx context.Context) (err error) {
	c, err := startCluster(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	var last results
	for _, readers := range []int{1, cmp.load.Readers} {
		l := cmp.load
		l.Readers = readers
		if last, err = compare(ctx, c, l, cmp.rounds); err != nil {
			return err
		}
		fmt.Printf("%d readers: cpu/event owner=%v attach=%v (other node %v, owner %v) proxy=%v\n", readers,
			last.cpu("owner", both), last.cpu("attach", both), last.cpu("attach", between), last.cpu("attach", owner), last.cpu("proxy", both))
		fmt.Printf("%d readers: p50 and p99 owner=%v %v attach=%v %v proxy=%v %v\n", readers,
			last.p50("owner"), last.p99("owner"), last.p50("attach"), last.p99("attach"), last.p50("proxy"), last.p99("proxy"))
	}
	fmt.Printf("cluster ratio: cpu=%.2f added_p50_ms=%.2f\n",
		float64(last.cpu("attach", both))/float64(last.cpu("owner", both)),
		(last.p50("attach")-last.p50("owner")).Seconds()*1000)
	return nil
}

// compare measures all ways in turn.
func compare(ctx context.Context, c *cluster, l load.Load, rounds int) (results, error) {
	got := results{}
	for range rounds {
		for _, way := range ways {
			r, err := measured(ctx, c, l, way.to(c))
			if err != nil {
				return nil, fmt.Errorf("measure %s: %w", way.name, err)
			}
			fmt.Printf("%-6s readers=%d sent=%d delivered=%d p50=%v p99=%v cpu/event: owner=%v between=%v others=%.2f\n",
				way.name, l.Readers, r.Sent, r.Delivered, r.P50.Round(precision), r.P99.Round(precision),
				owner(r).Round(fine), between(r).Round(fine), r.Others)
			got[way.name] = append(got[way.name], r)
		}
	}
	return got, nil
}

// measured puts the load on a new stream of the owner's, with readers elsewhere.
func measured(ctx context.Context, c *cluster, l load.Load, readers *measure.Child) (load.Result, error) {
	path := "/v1/streams/" + c.stream()
	r, err := l.Run(ctx, load.Stream{
		Producer: c.owner.URL + path, Reader: readers.URL + path,
		Servers: []int{c.owner.PID, c.other.PID, c.proxy.PID},
	})
	if err != nil {
		return r, err
	}
	return r, load.Post(ctx, http.DefaultClient, c.owner.URL+path+"/close", "application/json", "{}")
}

// What is printed of a time, and of CPU.
const (
	precision = 10 * time.Microsecond
	fine      = 10 * time.Nanosecond
)

// results are those of the ways.
type results map[string][]load.Result

func owner(r load.Result) time.Duration   { return r.CPU[0] }
func between(r load.Result) time.Duration { return r.CPU[1] + r.CPU[2] } // one of them has nothing to do
func both(r load.Result) time.Duration    { return owner(r) + between(r) }

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
