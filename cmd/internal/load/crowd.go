package load

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// sampled is how many readers' delays are kept.
const sampled = 100

// stampSize is the length of a time in nanoseconds, in decimal digits.
const stampSize = 19

// crowd is the readers of a run.
type crowd struct {
	wait      sync.WaitGroup
	delivered atomic.Int64
	mu        sync.Mutex
	delays    []time.Duration
}

// join connects so many readers to each of the streams.
func join(ctx context.Context, streams []Stream, each int) (*crowd, error) {
	var c crowd
	all := each * len(streams)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: all}}
	for i := range all {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, streams[i/each].Reader+"?from=0", nil)
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
		keep := i%max(1, all/sampled) == 0
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
