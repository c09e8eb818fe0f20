// Package load is one producer and many readers of one stream, for the programs
// that measure what those cost.
package load

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"rillkeep.dev/rillkeep/cmd/internal/measure"
)

// Load says how much there is to do.
type Load struct {
	Readers, Rate int // Rate is deltas a second
	Length        time.Duration
}

// Stream is what a load is put on: one that is not open yet.
type Stream struct {
	Producer, Reader string // its URL, for the producer and for readers
	Servers          []int  // processes to be measured
}

// Result is how it went.
type Result struct {
	Sent      int
	Delivered int64
	P50, P99  time.Duration   // from the producer's send to a reader's socket
	CPU       []time.Duration // of each server, per delivered event
	Memory    []float64       // of each server, per idle reader, KiB
	Others    float64         // processors that neither the servers nor this process used
}

// use is what there was to see at a moment.
type use struct {
	at      time.Time
	machine time.Duration
	self    time.Duration
	servers []measure.Process
}

func (s Stream) use() (u use, err error) {
	u.at = time.Now()
	if u.machine, err = measure.Machine(); err != nil {
		return u, err
	}
	self, err := measure.Of(os.Getpid())
	if err != nil {
		return u, err
	}
	u.self = self.Used
	for _, pid := range s.Servers {
		p, err := measure.Of(pid)
		if err != nil {
			return u, err
		}
		u.servers = append(u.servers, p)
	}
	return u, nil
}

// Run opens the stream and puts the load on it.
func (l Load) Run(ctx context.Context, s Stream) (r Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.Length+2*time.Minute)
	defer cancel()
	producer := &http.Client{}
	if err := Post(ctx, producer, s.Producer, "application/json", "{}"); err != nil {
		return r, err
	}
	before, err := s.use()
	if err != nil {
		return r, err
	}
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	readers, err := join(reading, s.Reader, l.Readers)
	if err != nil {
		return r, err
	}
	pause(ctx, time.Second) // idle now
	idle, err := s.use()
	if err != nil {
		return r, err
	}
	if r.Sent, err = l.produce(ctx, producer, s.Producer); err != nil {
		return r, err
	}
	pause(ctx, time.Second) // let it arrive
	after, err := s.use()
	if err != nil {
		return r, err
	}
	stopReading()
	readers.wait.Wait()

	r.Delivered = readers.delivered.Load()
	if r.Delivered == 0 {
		return r, fmt.Errorf("nothing was delivered")
	}
	slices.Sort(readers.delays)
	r.P50, r.P99 = readers.delays[len(readers.delays)/2], readers.delays[len(readers.delays)*99/100]
	others := after.machine - idle.machine - (after.self - idle.self)
	for i := range s.Servers {
		used := after.servers[i].Used - idle.servers[i].Used
		others -= used
		r.CPU = append(r.CPU, used/time.Duration(r.Delivered))
		r.Memory = append(r.Memory, float64(idle.servers[i].Memory-before.servers[i].Memory)/1024/float64(l.Readers))
	}
	r.Others = max(0, others.Seconds()/after.at.Sub(idle.at).Seconds())
	return r, ctx.Err()
}

// produce sends deltas at the rate, each with the time in it, and returns how
// many.
func (l Load) produce(ctx context.Context, c *http.Client, stream string) (sent int, err error) {
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
