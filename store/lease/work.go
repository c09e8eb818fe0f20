package lease

import (
	"context"
	"math/rand/v2"
	"time"
)

// retentionEvery is how often ended streams are looked for, unless they stay for
// less.
const retentionEvery = time.Minute

// every does work again and again until ctx ends, with jittered pauses: the nodes
// of a cluster don't knock together.
func every(ctx context.Context, pause time.Duration, work func(context.Context)) {
	timer := time.NewTimer(rand.N(pause))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			work(ctx)
			timer.Reset(pause*3/4 + rand.N(pause/2))
		case <-ctx.Done():
			return
		}
	}
}

// steady answers the term if it has had no gap for two leases. Who has not seen
// that may be looking at a database that was away: then the others' leases ran
// out as well, and they are about to renew them.
func (k *Keeper) steady() (term, bool) {
	t := *k.term.Load()
	return t, k.Held() && time.Since(t.since) >= 2*k.cfg.TTL
}

// sweep seals orphans while the lease is steady: no longer than the term that it
// began with, and then anew.
func (k *Keeper) sweep(ctx context.Context) {
	for {
		t, ok := k.steady()
		if !ok || ctx.Err() != nil {
			return
		}
		call, cancel := context.WithDeadline(ctx, t.until)
		n, err := k.cfg.Store.Sweep(call, k.cfg.Node, k.cfg.Grace)
		cut := call.Err() != nil
		cancel()
		k.swept.Add(int64(n))
		if n > 0 {
			k.log.Info("sealed what other nodes left streaming", "streams", n)
		}
		if err != nil && !cut {
			k.log.Warn("could not seal all that other nodes left streaming", "error", err)
		}
		if !cut || n == 0 {
			return
		}
	}
}

// retain deletes ended streams that are too old.
func (k *Keeper) retain(ctx context.Context) {
	for k.Held() && ctx.Err() == nil {
		call, cancel := context.WithTimeout(ctx, retentionEvery)
		n, err := k.cfg.Store.DeleteEnded(call, k.cfg.Retention)
		cut := call.Err() != nil
		cancel()
		k.deleted.Add(int64(n))
		if n > 0 {
			k.log.Info("deleted old streams", "streams", n)
		}
		if err != nil && !cut {
			k.log.Warn("could not delete all old streams", "error", err)
		}
		if !cut || n == 0 {
			return
		}
	}
}
