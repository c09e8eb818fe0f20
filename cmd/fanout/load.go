package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"rillkeep.dev/rillkeep/cmd/internal/measure"
)

// load is one producer and many readers of one stream.
type load struct {
	readers, rate int
	length        time.Duration
}

type result struct {
	sent      int
	delivered int64
	p50, p99  time.Duration
	cpu       time.Duration // of the server, per delivered event
	rss       float64       // of the server, per idle reader, KiB
}

// sampled is how many readers' delays are kept.
const sampled = 100

// stampSize is the length of a time in nanoseconds, in decimal digits.
const stampSize = 19

// measure runs the load on a fresh server of this kind.
func (l load) measure(ctx context.Context, kind string) (r result, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.length+2*time.Minute)
	defer cancel()
	server, err := start(ctx, kind)
	if err != nil {
		return r, err
	}
	defer func() {
		if stopped := server.stop(); err == nil {
			err = stopped
		}
	}()
	stream := server.url + "/v1/streams/load"
	producer := &http.Client{}
	if err := post(ctx, producer, stream, "application/json", "{}"); err != nil {
		return r, err
	}

	before, err := measure.Of(server.cmd.Process.Pid)
	if err != nil {
		return r, err
	}
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	readers, err := l.join(reading, stream)
	if err != nil {
		return r, err
	}
	pause(ctx, time.Second) // idle now
	idle, err := measure.Of(server.cmd.Process.Pid)
	if err != nil {
		return r, err
	}
	if r.sent, err = l.produce(ctx, producer, stream); err != nil {
		return r, err
	}
	pause(ctx, time.Second) // let it arrive
	after, err := measure.Of(server.cmd.Process.Pid)
	if err != nil {
		return r, err
	}
	stopReading()
	readers.wait.Wait()

	r.delivered = readers.delivered.Load()
	if r.delivered == 0 {
		return r, fmt.Errorf("nothing was delivered")
	}
	slices.Sort(readers.delays)
	r.p50, r.p99 = readers.delays[len(readers.delays)/2], readers.delays[len(readers.delays)*99/100]
	r.cpu = (after.Used - idle.Used) / time.Duration(r.delivered)
	r.rss = float64(idle.Memory-before.Memory) / 1024 / float64(l.readers)
	return r, ctx.Err()
}

// produce sends deltas at the rate, each with the time in it, and returns how
// many.
func (l load) produce(ctx context.Context, c *http.Client, stream string) (sent int, err error) {
	tick := time.NewTicker(time.Second / time.Duration(l.rate))
	defer tick.Stop()
	end := time.Now().Add(l.length)
	for offset := 0; time.Now().Before(end) && ctx.Err() == nil; sent++ {
		<-tick.C
		delta := fmt.Sprintf("<%0*d tok>", stampSize, time.Now().UnixNano())
		u := fmt.Sprintf("%s/append?from=%d", stream, offset)
		if err := post(ctx, c, u, "text/plain", delta); err != nil {
			return sent, err
		}
		offset += len(delta)
	}
	return sent, nil
}

// crowd is the readers of a run.
type crowd struct {
	wait      sync.WaitGroup
	delivered atomic.Int64
	mu        sync.Mutex
	delays    []time.Duration
}

func (l load) join(ctx context.Context, stream string) (*crowd, error) {
	var c crowd
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: l.readers}}
	for i := range l.readers {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, stream+"?from=0", nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Accept", "text/event-stream")
		resp, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("reader: %s", resp.Status)
		}
		keep := i%max(1, l.readers/sampled) == 0
		c.wait.Go(func() { defer resp.Body.Close(); c.read(resp.Body, keep) })
	}
	return &c, nil
}

// read counts the deltas of one reader, and keeps their delays.
func (c *crowd) read(body io.Reader, keep bool) {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 64<<10), 4<<20)
	var delays []time.Duration
	for lines.Scan() {
		line := lines.Bytes()
		for {
			i := bytes.IndexByte(line, '<')
			if i < 0 || i+1+stampSize > len(line) {
				break
			}
			if at, err := strconv.ParseInt(string(line[i+1:i+1+stampSize]), 10, 64); err == nil {
				c.delivered.Add(1)
				if keep {
					delays = append(delays, time.Since(time.Unix(0, at)))
				}
			}
			line = line[i+1+stampSize:]
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delays = append(c.delays, delays...)
}

func post(ctx context.Context, c *http.Client, url, kind, body string) error {
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
