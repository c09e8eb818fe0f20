package router

import (
	"context"
	"sync"
	"time"

	"rillkeep.dev/rillkeep/store"
)

// lookTime is how long a look at a row serves others who come for the same.
const lookTime = 250 * time.Millisecond

// looks are reads of rows that are shared: readers of a stream who come back all at
// once are one read, not one each. It is safe for concurrent use.
type looks struct {
	mu sync.Mutex // guards below
	of map[string]*glance
}

type glance struct {
	over chan struct{} // closed when the others are set
	row  store.Stream
	err  error
}

// at returns the stream's row as it is, or was a moment ago. It outlives ctx where
// others may wait for it; read bounds it.
func (l *looks) at(ctx context.Context, id string, read func(context.Context, string) (store.Stream, error)) (store.Stream, error) {
	l.mu.Lock()
	k, ok := l.of[id]
	if !ok {
		if l.of == nil {
			l.of = make(map[string]*glance)
		}
		k = &glance{over: make(chan struct{})}
		l.of[id] = k
	}
	l.mu.Unlock()
	if ok {
		select {
		case <-k.over:
			return k.row, k.err
		case <-ctx.Done():
			return store.Stream{}, ctx.Err()
		}
	}
	k.row, k.err = read(context.WithoutCancel(ctx), id)
	close(k.over)
	if k.err != nil {
		l.forget(id)
	} else {
		time.AfterFunc(lookTime, func() { l.forget(id) })
	}
	return k.row, k.err
}

func (l *looks) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, id)
}
