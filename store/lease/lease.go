// Package lease keeps a node's lease on the database that it shares with others,
// and does what only a node with a lease may: write, and seal the streams of
// nodes that have none any more.
//
// The lease is by the database's clock. Whether it may be trusted is by this
// process's monotonic clock, and a fifth of the lease earlier: a node that can't
// renew stops before the others may think that it is gone. One that was paused
// past both finds out at its next write: its owner tokens decide. And if that clock
// stood still, as it does while a machine is suspended, the database tells at the next
// renewal that there was a gap.
package lease

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

// Defaults of Config.
const (
	DefaultTTL   = 10 * time.Second
	DefaultGrace = 30 * time.Second
)

// Config says what a Keeper keeps.
type Config struct {
	Store store.Shared // required
	Node  store.Node   // required: its Name and Incarnation

	// TTL is how long a renewal lasts; 0 means DefaultTTL. It is renewed every
	// three tenths of that, trusted for eight, and the sweeper looks every five.
	TTL time.Duration

	// Grace is how long an owner's lease must be over before its streams are
	// sealed; 0 means DefaultGrace.
	Grace time.Duration

	// Retention is how long ended streams stay; 0 keeps them.
	Retention time.Duration

	// Regained, if set, is called when the lease is held again after a gap, in which
	// others may have sealed what is this node's: one that was noticed here, or one that
	// only the database has seen. It must not block.
	Regained func()

	// Turned, if set, is called when the lease ceases to be held, and when it is held
	// again. It must not block.
	Turned func(held bool)

	Logger *slog.Logger // nil discards
}

// Stats are what a Keeper has seen.
type Stats struct {
	Held    bool  // the lease may be trusted now
	Failed  int64 // renewals that failed
	Swept   int64 // orphans sealed
	Deleted int64 // ended streams deleted
}

// Keeper keeps a lease. Its methods are safe for concurrent use.
type Keeper struct {
	cfg  Config
	log  *slog.Logger
	term atomic.Pointer[term]
	news chan struct{} // holds one: there is another term

	failing, told bool // whether the last renewal failed, and the log was told that the lease is held; for renew

	failed, swept, deleted atomic.Int64

	end     context.CancelFunc
	running sync.WaitGroup
	release sync.Once
}

// term is a time for which the lease may be trusted.
type term struct {
	since time.Time // it had no gap from here on
	until time.Time
	began time.Time // since, by the database's clock
}

// Keep renews the lease once, and from then on until ctx ends or Stop is called.
// That the first renewal fails is no error: the lease is held as soon as one
// succeeds.
func Keep(ctx context.Context, cfg Config) (*Keeper, error) {
	switch {
	case cfg.Store == nil || cfg.Node.Name == "" || cfg.Node.Incarnation == "":
		return nil, fmt.Errorf("%w: a lease needs a store and a node", plane.ErrConfig)
	case cfg.TTL < 0 || cfg.Grace < 0 || cfg.Retention < 0:
		return nil, fmt.Errorf("%w: times of a lease, its grace and the retention must be 0 or more", plane.ErrConfig)
	}
	cfg.TTL = cmp.Or(cfg.TTL, DefaultTTL)
	cfg.Grace = cmp.Or(cfg.Grace, DefaultGrace)
	k := &Keeper{cfg: cfg, log: cfg.Logger, news: make(chan struct{}, 1)}
	if k.log == nil {
		k.log = slog.New(slog.DiscardHandler)
	}
	k.term.Store(new(term))
	ctx, k.end = context.WithCancel(ctx)
	next := k.renew(ctx)
	k.running.Go(func() { k.renewing(ctx, next) })
	k.running.Go(func() { every(ctx, cfg.TTL/2, k.sweep) })
	if cfg.Turned != nil {
		k.running.Go(func() { k.watch(ctx) })
	}
	if cfg.Retention > 0 {
		k.running.Go(func() { every(ctx, min(retentionEvery, cfg.Retention), k.retain) })
	}
	return k, nil
}

// Held reports whether the lease may be trusted now.
func (k *Keeper) Held() bool { return time.Now().Before(k.term.Load().until) }

// Stats answers what the keeper has seen so far.
func (k *Keeper) Stats() Stats {
	return Stats{Held: k.Held(), Failed: k.failed.Load(), Swept: k.swept.Load(), Deleted: k.deleted.Load()}
}

// Stop ends the keeping, as ctx does, and waits until nothing of it runs. The
// lease is left to run out.
func (k *Keeper) Stop() {
	k.end()
	k.running.Wait()
}

// Release stops and gives the lease up, so that nobody waits for it to run out.
func (k *Keeper) Release(ctx context.Context) (err error) {
	k.Stop()
	k.release.Do(func() {
		k.start(term{})
		err = k.cfg.Store.Release(ctx, k.cfg.Node)
	})
	return err
}

// renewing renews the lease, for the first time at next.
func (k *Keeper) renewing(ctx context.Context, next time.Time) {
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			timer.Reset(time.Until(k.renew(ctx)))
		case <-ctx.Done():
			return
		}
	}
}

// renew renews the lease, and answers when to do so next. The term is counted
// from before the question: the database's began after that.
func (k *Keeper) renew(ctx context.Context) (next time.Time) {
	beat, began := k.cfg.TTL*3/10, time.Now()
	call, cancel := context.WithTimeout(ctx, beat)
	defer cancel()
	since, err := k.cfg.Store.Renew(call, k.cfg.Node, k.cfg.TTL)
	was := k.term.Load()
	switch {
	case ctx.Err() != nil: // stopped
	case err != nil:
		k.failed.Add(1)
		held := k.Held()
		if !k.failing || k.told != held { // not every second while it lasts
			k.log.Warn("could not renew the lease", "held", held, "error", err)
		}
		k.failing, k.told = true, held
		return time.Now().Add(k.cfg.TTL / 10)
	case k.Held() && since.Equal(was.began):
		k.start(term{since: was.since, until: began.Add(k.cfg.TTL * 8 / 10), began: since})
	default: // the first, or after a gap
		k.start(term{since: began, until: began.Add(k.cfg.TTL * 8 / 10), began: since})
		if !was.since.IsZero() && k.cfg.Regained != nil {
			k.cfg.Regained()
		}
		k.log.Info("the lease is renewed", "held", k.Held())
	}
	k.failing = false
	return began.Add(beat)
}

// start begins another term.
func (k *Keeper) start(t term) {
	k.term.Store(&t)
	select {
	case k.news <- struct{}{}:
	default:
	}
}

// watch tells when the lease turns.
func (k *Keeper) watch(ctx context.Context) {
	over := time.NewTimer(0)
	defer over.Stop()
	for held := true; ; {
		if now := k.Held(); now != held {
			held = now
			k.cfg.Turned(held)
		}
		if held {
			over.Reset(time.Until(k.term.Load().until))
		}
		select {
		case <-over.C:
		case <-k.news:
		case <-ctx.Done():
			return
		}
	}
}
