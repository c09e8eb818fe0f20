package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"rillkeep.dev/rillkeep/cmd/internal/measure"
)

// load says how much there is to do.
type load struct {
	producers   int
	rate        int // deltas a second of each
	length      time.Duration
	connections int // that HTTP/2 producers share
}

// patience bounds the wait for what was sent to become durable.
const patience = 30 * time.Second

// run opens streams, has their producers send, and says what the node used for that
// from the moment when all are connected until all text is durable.
func (l load) run(ctx context.Context, node *measure.Child, w way) (r result, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.length+3*patience)
	defer cancel()
	clients := l.clients(w)
	defer func() {
		for _, c := range clients {
			c.CloseIdleConnections()
		}
	}()
	run := rand.Text()
	all := make([]*producer, l.producers)
	for i := range all {
		all[i] = newProducer(clients[i%len(clients)], fmt.Sprintf("%s/v1/streams/%s-%d", node.URL, run, i))
		if err := all[i].post(ctx, "", "application/json", "{}"); err != nil {
			return r, err
		}
	}
	sending, stop := context.WithCancel(ctx)
	defer stop()
	var sources errgroup.Group
	send := (*producer).append
	if w.pumps {
		send = (*producer).push
		for _, p := range all {
			sources.Go(func() error { return p.pump(sending) })
		}
	}
	if r, err = l.measure(ctx, node, all, send); err != nil {
		return r, err
	}
	for _, p := range all {
		p.end()
	}
	if err := sources.Wait(); err != nil {
		return r, err
	}
	for _, p := range all {
		if err := p.post(ctx, "/close", "application/json", "{}"); err != nil {
			return r, err
		}
	}
	return r, nil
}

// measure has the producers send one delta each, so that they are connected, and
// then measures.
func (l load) measure(ctx context.Context, node *measure.Child, all []*producer, send func(*producer, context.Context) error) (r result, err error) {
	if err := each(all, func(_ int, p *producer) error { return send(p, ctx) }); err != nil {
		return r, err
	}
	if err := settle(ctx, all); err != nil {
		return r, err
	}
	for _, p := range all {
		p.forget()
	}
	before, err := measure.UsageOf(node.PID)
	if err != nil {
		return r, err
	}
	err = each(all, func(i int, p *producer) error {
		every := time.Second / time.Duration(l.rate)
		return p.produce(ctx, before.At.Add(every*time.Duration(i)/time.Duration(len(all))), every, l.length, send)
	})
	if err != nil {
		return r, err
	}
	took := time.Since(before.At)
	if err := settle(ctx, all); err != nil {
		return r, err
	}
	after, err := measure.UsageOf(node.PID)
	if err != nil {
		return r, err
	}
	sent := 0
	var accepted, durable []time.Duration
	for _, p := range all {
		sent += len(p.accepted)
		accepted, durable = append(accepted, p.accepted...), append(durable, p.durable...)
	}
	return result{
		reached:  float64(sent) / took.Seconds(),
		cpu:      (after.Servers[0].Used - before.Servers[0].Used) / time.Duration(max(1, sent)),
		accepted: delaysOf(accepted), durable: delaysOf(durable), others: after.Others(before),
	}, nil
}

// clients are those that the producers share.
func (l load) clients(w way) []*http.Client {
	if w.major == 1 {
		return []*http.Client{{Transport: &http.Transport{MaxIdleConnsPerHost: l.producers}}}
	}
	clients := make([]*http.Client, max(1, l.connections))
	for i := range clients {
		var p http.Protocols
		p.SetUnencryptedHTTP2(true)
		clients[i] = &http.Client{Transport: &http.Transport{Protocols: &p}}
	}
	return clients
}

// each does something for all producers at once.
func each(all []*producer, do func(int, *producer) error) error {
	var g errgroup.Group
	for i, p := range all {
		g.Go(func() error { return do(i, p) })
	}
	return g.Wait()
}

// settle waits until all that was sent is durable.
func settle(ctx context.Context, all []*producer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("what was sent did not become durable"))
	defer cancel()
	return each(all, func(_ int, p *producer) error { return p.settle(ctx) })
}
