package clustertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// What a load is.
const (
	streams   = 200
	readers   = 600
	deltas    = 600 // of a stream, at most
	deltaTime = 800 * time.Millisecond
)

// load is producers and readers of a cluster.
type load struct {
	*cluster
	producers []*producer
	readers   []*reader
	enough    chan struct{} // closed when the producers may come to an end
	begun     sync.WaitGroup
	running   *errgroup.Group
	ctx       context.Context
}

// load begins so many streams, whose ids begin with name, and readers, and returns
// when all have begun.
func (c *cluster) load(name string, streams, readers int) *load {
	c.Helper()
	l := &load{cluster: c, enough: make(chan struct{})}
	l.running, l.ctx = errgroup.WithContext(c.within(4 * patience))
	for i := range streams {
		p := &producer{c: c, text: newText(fmt.Sprintf("%s-%d", name, i), deltas), attempt: i, pause: deltaTime}
		l.producers = append(l.producers, p)
		l.begun.Add(1)
		l.running.Go(func() error { return l.produce(p) })
	}
	l.begun.Wait()
	if l.ctx.Err() != nil {
		l.finish()
		c.FailNow()
	}
	for i := range readers {
		r := &reader{c: c, text: l.producers[i%streams].text, attempt: i / streams}
		r.pos = rand.Int64N(2 * r.text.ends[2])
		l.readers = append(l.readers, r)
		l.running.Go(func() error {
			if i%10 == 9 {
				return r.follow(l.ctx)
			}
			return r.run(l.ctx)
		})
	}
	c.await("readers", func() bool {
		opened := 0
		for _, r := range l.readers {
			if r.opened.Load() {
				opened++
			}
		}
		return opened == readers || l.ctx.Err() != nil
	})
	return l
}

// produce is one producer's life.
func (l *load) produce(p *producer) error {
	err := p.open(l.ctx)
	l.begun.Done()
	if err != nil {
		return err
	}
	if err := p.speak(l.ctx, l.enough); err != nil || p.gone != nil {
		return err
	}
	return p.close(l.ctx)
}

// steady checks that no stream went back, and none had to be claimed anew.
func (l *load) steady() {
	l.Helper()
	for _, r := range l.readers {
		if r.rewound > 0 {
			l.Errorf("a reader of %s was taken back %d times", r.text.id, r.rewound)
		}
	}
	for _, p := range l.producers {
		if p.resumed > 0 {
			l.Errorf("the producer of %s had to resume %d times", p.text.id, p.resumed)
		}
	}
}

// finish lets the producers come to an end, and waits for all.
func (l *load) finish() {
	l.Helper()
	close(l.enough)
	if err := l.running.Wait(); err != nil {
		l.Error(err)
	}
}

// tell logs how it went.
func (l *load) tell() {
	var retried, resumed, returned, rewound int
	var units int64
	for _, p := range l.producers {
		retried, resumed, units = retried+p.retried, resumed+p.resumed, units+p.pos
	}
	for _, r := range l.readers {
		returned, rewound = returned+r.returned, rewound+r.rewound
	}
	l.Logf("%d producers said %d units, tried again %d times and resumed %d times; %d readers came back %d times and were taken back %d times",
		len(l.producers), units, retried, resumed, len(l.readers), returned, rewound)
}

// whole checks that streams are complete, in the store and at their readers.
func (l *load) whole() {
	l.Helper()
	for i, p := range l.producers {
		if p.gone != nil {
			continue
		}
		snap := l.living(i).snapshot(p.text.id)
		if want := p.text.slice(0, p.pos); snap.Status != "complete" || snap.Text != want {
			l.Errorf("%s is %s with %d units of %d", p.text.id, snap.Status, snap.Seq, p.pos)
		}
	}
	for i, r := range l.readers {
		if p := l.producers[i%len(l.producers)]; p.gone == nil && (r.end.status != "complete" || r.end.seq != p.pos) {
			l.Errorf("a reader of %s has its end as %s at %d, want %d", p.text.id, r.end.status, r.end.seq, p.pos)
		}
	}
}
