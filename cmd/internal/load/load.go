// Package load is the producers and readers of streams, for the programs that
// measure what those cost.
package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"rillkeep.dev/rillkeep/cmd/internal/measure"
)

// Load says how much there is to do.
type Load struct {
	Readers int // of each stream
	Rate    int // deltas a second of each stream, all by one producer
	Length  time.Duration
}

// Stream is where a load is put: the URL of a stream that is not open yet, for its
// producer and for its readers.
type Stream struct{ Producer, Reader string }

// Result is how it went.
type Result struct {
	Sent      int64
	Delivered int64
	P50, P99  time.Duration   // from a producer's send to a reader's socket
	CPU       []time.Duration // of each server, per delivered event
	Memory    []float64       // of each server, per idle reader, KiB
	Others    float64         // processors that neither the servers nor this process used
}

// Run opens the streams, puts the load on them, and says what the server
// processes used for it. The streams are not closed.
func (l Load) Run(ctx context.Context, streams []Stream, servers []int) (r Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.Length+2*time.Minute)
	defer cancel()
	producer := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: len(streams)}}
	for _, s := range streams {
		if err := Post(ctx, producer, s.Producer, "application/json", "{}"); err != nil {
			return r, err
		}
	}
	before, err := measure.UsageOf(servers...)
	if err != nil {
		return r, err
	}
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	readers, err := join(reading, streams, l.Readers)
	if err != nil {
		return r, err
	}
	pause(ctx, time.Second) // idle now
	idle, err := measure.UsageOf(servers...)
	if err != nil {
		return r, err
	}
	if r.Sent, err = l.produceAll(ctx, producer, streams); err != nil {
		return r, err
	}
	pause(ctx, time.Second) // let it arrive
	after, err := measure.UsageOf(servers...)
	if err != nil {
		return r, err
	}
	stopReading()
	readers.wait.Wait()

	if r.Delivered = readers.delivered.Load(); r.Delivered == 0 {
		return r, errors.New("nothing was delivered")
	}
	slices.Sort(readers.delays)
	r.P50, r.P99 = readers.delays[len(readers.delays)/2], readers.delays[len(readers.delays)*99/100]
	for i := range servers {
		used := after.Servers[i].Used - idle.Servers[i].Used
		r.CPU = append(r.CPU, used/time.Duration(r.Delivered))
		grown := idle.Servers[i].Memory - before.Servers[i].Memory
		r.Memory = append(r.Memory, float64(grown)/1024/float64(l.Readers*len(streams)))
	}
	r.Others = after.Others(idle)
	return r, ctx.Err()
}

// produceAll sends deltas to all streams, not all in the same moment, and returns
// how many.
func (l Load) produceAll(ctx context.Context, c *http.Client, streams []Stream) (int64, error) {
	var sent atomic.Int64
	producers, ctx := errgroup.WithContext(ctx)
	for i, s := range streams {
		producers.Go(func() error {
			pause(ctx, time.Second/time.Duration(l.Rate)*time.Duration(i)/time.Duration(len(streams)))
			n, err := l.produce(ctx, c, s.Producer)
			sent.Add(n)
			return err
		})
	}
	err := producers.Wait()
	return sent.Load(), err
}

// produce sends deltas at the rate, each with the time in it, and returns how
// many.
func (l Load) produce(ctx context.Context, c *http.Client, stream string) (sent int64, err error) {
	tick := time.NewTicker(time.Second / time.Duration(l.Rate))
	defer tick.Stop()
	end := time.Now().Add(l.Length)
	for offset := 0; time.Now().Before(end) && ctx.Err() == nil; sent++ {
		<-tick.C
		delta := fmt.Sprintf("<%0*d tok>", stampSize, time.Now().UnixNano())
		u := fmt.Sprintf("%s/append?from=%d", stream, offset)
		if err := Post(ctx, c, u, "text/plain", delta); err != nil {
			return sent, err
		}
		offset += len(delta)
	}
	return sent, nil
}

// Post sends a body and expects a good answer.
func Post(ctx context.Context, c *http.Client, url, kind, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", kind)
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s", resp.Status, answer)
	}
	return err
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
