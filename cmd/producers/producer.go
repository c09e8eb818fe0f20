package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"rillkeep.dev/rillkeep/router/wire"
)

// A delta, and the same as a pump's line. It is about as long as a token.
const (
	delta     = " word"
	pumpDelta = `{"text":" word"}` + "\n"
)

// producer is one of a stream.
type producer struct {
	client *http.Client
	url    string
	body   *io.PipeReader // of the pump
	to     *io.PipeWriter

	mu       sync.Mutex
	sent     []time.Time     // of each delta
	accepted []time.Duration // delays, in the order of the deltas
	durable  []time.Duration
	first    int           // deltas that the delays leave out
	grown    chan struct{} // closed at the next acknowledgement
}

func newProducer(client *http.Client, url string) *producer {
	p := &producer{client: client, url: url, grown: make(chan struct{})}
	p.body, p.to = io.Pipe()
	return p
}

// produce sends deltas, each when it is due.
func (p *producer) produce(ctx context.Context, from time.Time, every, length time.Duration, send func(*producer, context.Context) error) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for due, end := from, from.Add(length); due.Before(end); {
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := send(p, ctx); err != nil {
			return err
		}
		due = due.Add(every)
		if late := time.Since(due); late > 0 {
			due = due.Add(late / every * every)
		}
	}
	return nil
}

// stamp takes note that a delta is sent, and returns where it starts.
func (p *producer) stamp() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, time.Now())
	return (len(p.sent) - 1) * len(delta)
}

// append sends a delta as a request of its own.
func (p *producer) append(ctx context.Context) error {
	return p.post(ctx, fmt.Sprintf("/append?from=%d", p.stamp()), "text/plain", delta)
}

// push gives the pump a delta.
func (p *producer) push(context.Context) error {
	p.stamp()
	_, err := io.WriteString(p.to, pumpDelta)
	return err
}

// end ends the pump.
func (p *producer) end() { _ = p.to.Close() }

// pump runs the pump until end, and takes its acknowledgements.
func (p *producer) pump(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/pump?from=0", p.body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := p.client.Do(req)
	if err != nil {
		_ = p.body.CloseWithError(err)
		return err
	}
	defer resp.Body.Close()
	for lines := json.NewDecoder(resp.Body); ; {
		var line wire.PumpLine
		if err := lines.Decode(&line); err != nil {
			_ = p.body.CloseWithError(err)
			return fmt.Errorf("read acknowledgements: %s: %w", resp.Status, err)
		}
		if line.Error != nil {
			_ = p.body.CloseWithError(line.Error)
			return line.Error
		}
		p.acknowledged(line.Ack)
		if line.Done {
			return nil
		}
	}
}

// post makes a call, and takes what its answer acknowledges.
func (p *producer) post(ctx context.Context, path, kind, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", kind)
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s", resp.Status, answer)
	}
	var ack wire.Ack
	if err := json.Unmarshal(answer, &ack); err != nil {
		return err
	}
	p.acknowledged(ack)
	return nil
}

func (p *producer) acknowledged(a wire.Ack) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted = p.cover(p.accepted, a.Seq, now)
	p.durable = p.cover(p.durable, a.DurableSeq, now)
	close(p.grown)
	p.grown = make(chan struct{})
}

// cover adds the delays of the deltas up to seq. p.mu is held.
func (p *producer) cover(known []time.Duration, seq int64, now time.Time) []time.Duration {
	for i := p.first + len(known); i < min(len(p.sent), int(seq)/len(delta)); i++ {
		known = append(known, now.Sub(p.sent[i]))
	}
	return known
}

// forget leaves what was sent so far out of the delays.
func (p *producer) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.first, p.accepted, p.durable = len(p.sent), nil, nil
}

// settle waits until all that was sent is durable, and asks where nobody tells.
func (p *producer) settle(ctx context.Context) error {
	ask := time.NewTicker(time.Second)
	defer ask.Stop()
	for {
		p.mu.Lock()
		grown, all := p.grown, p.first+len(p.durable) == len(p.sent)
		p.mu.Unlock()
		if all {
			return nil
		}
		select {
		case <-grown:
		case <-ask.C:
			if err := p.post(ctx, "/flush", "application/json", ""); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
