package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/sqlite"
)

// beBench appends checkpoints of 512 units to 64 streams, as many as its name says
// after a slash, and says how long the longest took.
func beBench(ctx context.Context, p *process) error {
	name, count, _ := strings.Cut(p.name, "/")
	p.name = name
	left, longest := atomic.Int64{}, atomic.Int64{}
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil {
		return err
	}
	left.Store(n)
	rows := make([]plane.Row, 64)
	for n := range rows {
		if rows[n], err = p.open(ctx, fmt.Sprint(name, "-", n)); err != nil {
			return err
		}
	}
	p.say("ready")
	if err := p.told(); err != nil {
		return err
	}
	text := strings.Repeat("0123456789abcde ", 32)
	errs := make([]error, len(rows))
	var all sync.WaitGroup
	for n, row := range rows {
		all.Go(func() {
			for errs[n] == nil && left.Add(-1) >= 0 {
				began := time.Now()
				slice := plane.Slice{ID: fmt.Sprint(name, "-", n), Token: row.Token, From: row.Seq, Seq: row.Seq + 512, Text: text}
				row, errs[n] = p.Append(ctx, slice)
				took := int64(time.Since(began))
				for old := longest.Load(); took > old && !longest.CompareAndSwap(old, took); old = longest.Load() {
				}
			}
		})
	}
	all.Wait()
	p.say("took %d", longest.Load())
	return errors.Join(errs...)
}

// BenchmarkProcesses measures checkpoints of one process and of three that share a
// file, each with 64 streams; an operation is one checkpoint of any of them.
func BenchmarkProcesses(b *testing.B) {
	for _, processes := range []int{1, 3} {
		b.Run(fmt.Sprintf("processes=%d", processes), func(b *testing.B) {
			path := b.TempDir() + "/rillkeep.db"
			open(b, path, sqlite.Config{}) // which reads, and keeps the file open
			children := make([]*child, processes)
			for n := range children {
				children[n] = start(b, "bench", path, fmt.Sprintf("n%d/%d", n, max(64, b.N/processes)))
				if words := children[n].next(); len(words) != 1 {
					b.Fatalf("it said %q", words)
				}
			}
			b.ResetTimer()
			var longest time.Duration
			for _, c := range children {
				c.tell(b, "go")
			}
			for _, c := range children {
				words := c.next()
				if len(words) != 2 {
					b.Fatalf("it said %q", words)
				}
				n, err := strconv.ParseInt(words[1], 10, 64)
				if err != nil {
					b.Fatal(err)
				}
				longest = max(longest, time.Duration(n))
			}
			b.ReportMetric(float64(longest.Milliseconds()), "longest-ms")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "checkpoints/s")
		})
	}
}
