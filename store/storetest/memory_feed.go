package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/feed"
)

// Notify tells messages to all who listen, in this order: all or none.
func (n *MemoryNode) Notify(ctx context.Context, messages []string) error {
	for _, m := range messages {
		if len(m) > feed.MaxMessage {
			return fmt.Errorf("notify: a message has %d bytes", len(m))
		}
	}
	return n.do(ctx, func(context.Context) error {
		n.db.tell(messages)
		return nil
	})
}

func (d *SharedMemory) tellCancel(c Change) {
	d.tell(feed.Messages([]feed.Change{{ID: c.ID, Seq: c.After.Seq, Epoch: c.After.Epoch, Cancel: true}}))
}

func (d *SharedMemory) tell(messages []string) {
	d.feed.Lock()
	defer d.feed.Unlock()
	for l := range d.heard {
		l.queue = append(l.queue, messages...)
		select {
		case l.news <- struct{}{}:
		default:
		}
	}
}

// Listen hears what is told until ctx is done; see feed.Listen.
func (n *MemoryNode) Listen(ctx context.Context, to feed.Listener) {
	feed.Listen(ctx, func(ctx context.Context) (feed.Session, error) {
		l := &memoryListener{node: n, news: make(chan struct{}, 1)}
		return l, n.do(ctx, func(context.Context) error {
			n.db.feed.Lock()
			defer n.db.feed.Unlock()
			n.db.heard[l] = struct{}{}
			return nil
		})
	}, to)
}

// Cancelled answers the streams that node, a node/incarnation, has live and that were
// asked to stop, in the order of their ids.
func (n *MemoryNode) Cancelled(ctx context.Context, node string) (ids []string, err error) {
	err = n.locked(ctx, func() error {
		ids = nil
		for _, id := range slices.Sorted(maps.Keys(n.rows)) {
			r := n.rows[id]
			if r.Cancel && r.Status == plane.StatusStreaming && strings.HasPrefix(r.Token, node+"/") {
				ids = append(ids, id)
			}
		}
		return nil
	})
	return ids, err
}

// memoryListener is a feed.Session.
type memoryListener struct {
	node  *MemoryNode
	news  chan struct{} // holds one
	queue []string      // guarded by the database's feed
}

// Receive waits for a message. See feed.Session.
func (l *memoryListener) Receive(ctx context.Context) (string, error) {
	for {
		if err := l.node.pass(ctx); err != nil {
			return "", err
		}
		if message, ok := l.next(); ok {
			return message, nil
		}
		select {
		case <-l.news:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

func (l *memoryListener) next() (message string, ok bool) {
	l.node.db.feed.Lock()
	defer l.node.db.feed.Unlock()
	if len(l.queue) == 0 {
		return "", false
	}
	message, l.queue = l.queue[0], l.queue[1:]
	return message, true
}

// Ping asks whether the database is there.
func (l *memoryListener) Ping(ctx context.Context) error { return l.node.pass(ctx) }

// Close hears no more.
func (l *memoryListener) Close() {
	l.node.db.feed.Lock()
	defer l.node.db.feed.Unlock()
	delete(l.node.db.heard, l)
}
