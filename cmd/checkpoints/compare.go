package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/cmd/internal/measure"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/postgres"
	"rillkeep.dev/rillkeep/store/postgres/pgtest/server"
)

// comparison is the obvious way beside ours.
type comparison struct {
	length time.Duration
	rounds int
	at     []int
}

// appender is one of the two.
type appender interface {
	open(ctx context.Context, id string) (plane.Row, error)
	append(ctx context.Context, slice plane.Slice) (plane.Row, error)
}

// result is of one measurement.
type result struct {
	rate     float64 // checkpoints a second
	p50, p99 time.Duration
	wal      float64 // bytes a checkpoint
}

// text is a slice of 512 units.
var text = strings.Repeat("0123456789 abcde", 32)

func (c comparison) run(ctx context.Context, server *server.Server) error {
	db, err := pgxpool.New(ctx, server.URL())
	if err != nil {
		return err
	}
	defer db.Close()
	var line strings.Builder
	for _, streams := range c.at {
		got := map[string][]result{}
		for round := range c.rounds {
			for _, way := range []string{"obvious", "ours"} {
				r, err := c.measure(ctx, db, server, way, fmt.Sprintf("%s_%d_%d", way, streams, round), streams)
				if err != nil {
					return fmt.Errorf("%s at %d streams: %w", way, streams, err)
				}
				fmt.Printf("%-7s streams=%d checkpoints/s=%.0f p50=%v p99=%v wal/checkpoint=%.0fB\n",
					way, streams, r.rate, r.p50.Round(10*time.Microsecond), r.p99.Round(10*time.Microsecond), r.wal)
				got[way] = append(got[way], r)
			}
		}
		rate := func(r result) float64 { return r.rate }
		fmt.Fprintf(&line, " %d=%.2f", streams, measure.Median(got["ours"], rate)/measure.Median(got["obvious"], rate))
	}
	fmt.Println("store ratio:" + line.String())
	return nil
}

// measure runs one way in tables of its own.
func (c comparison) measure(ctx context.Context, db *pgxpool.Pool, server *server.Server, way, schema string, streams int) (r result, err error) {
	a, done, err := open(ctx, server, way, schema)
	if err != nil {
		return r, err
	}
	defer done()
	rows := make([]plane.Row, streams)
	for n := range rows {
		if rows[n], err = a.open(ctx, fmt.Sprint("stream-", n)); err != nil {
			return r, err
		}
	}
	if _, err := db.Exec(ctx, "CHECKPOINT"); err != nil {
		return r, err
	}
	before, err := walPosition(ctx, db)
	if err != nil {
		return r, err
	}
	began := time.Now()
	delays, err := c.appends(ctx, a, rows)
	if err != nil {
		return r, err
	}
	took := time.Since(began)
	after, err := walPosition(ctx, db)
	if err != nil {
		return r, err
	}
	slices.Sort(delays)
	n := len(delays)
	return result{
		rate: float64(n) / took.Seconds(), p50: delays[n/2], p99: delays[n*99/100], wal: (after - before) / float64(n),
	}, nil
}

// appends appends to all streams at once, as fast as it goes, and answers how
// long each checkpoint took.
func (c comparison) appends(ctx context.Context, a appender, rows []plane.Row) ([]time.Duration, error) {
	end := time.Now().Add(c.length)
	each, errs := make([][]time.Duration, len(rows)), make([]error, len(rows))
	var all sync.WaitGroup
	for n, row := range rows {
		all.Go(func() {
			for at := time.Now(); at.Before(end) && errs[n] == nil; at = time.Now() {
				next := row.Seq + int64(len(text))
				row, errs[n] = a.append(ctx, plane.Slice{
					ID: fmt.Sprint("stream-", n), Token: row.Token, From: row.Seq, Seq: next, Text: text,
				})
				if errs[n] == nil && row.Seq != next {
					errs[n] = fmt.Errorf("confirmed %d of %d", row.Seq, next)
				}
				each[n] = append(each[n], time.Since(at))
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return slices.Concat(each...), nil
}

// walPosition answers how many bytes of write-ahead log there have been.
func walPosition(ctx context.Context, db *pgxpool.Pool) (bytes float64, err error) {
	err = db.QueryRow(ctx, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8").Scan(&bytes)
	return bytes, err
}

// open returns a way to append, in tables of a schema of its own.
func open(ctx context.Context, server *server.Server, way, schema string) (a appender, done func(), err error) {
	if way == "obvious" {
		return openObvious(ctx, server.URL(), schema)
	}
	s, err := postgres.Open(ctx, server.URL(), postgres.Config{Schema: schema})
	if err != nil {
		return nil, nil, err
	}
	return ours{s}, func() { _ = s.Close(context.WithoutCancel(ctx)) }, nil
}

type ours struct{ *postgres.Store }

func (o ours) open(ctx context.Context, id string) (plane.Row, error) {
	return o.Open(ctx, plane.Claim{ID: id, Node: "n1/boot1"})
}

func (o ours) append(ctx context.Context, slice plane.Slice) (plane.Row, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return o.Append(ctx, slice)
}
