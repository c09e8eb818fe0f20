package storetest

import (
	"context"
	"fmt"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// MemoryNode is a SharedMemory as one node's store. SharedMemory.Node makes one.
type MemoryNode struct {
	*Memory
	db    *SharedMemory
	calls rows.Calls

	wanted map[string]bool // names; guarded by db.rows.mu

	// Guarded by db.feed.
	way    way
	turned chan struct{} // closed, and made anew, when way changes
	late   []func()      // calls that were given up on a way that is cut
}

// Open claims a stream. See plane.Store.
func (n *MemoryNode) Open(ctx context.Context, claim plane.Claim) (plane.Row, error) {
	return through(ctx, n, func(ctx context.Context) (plane.Row, error) { return n.Memory.Open(ctx, claim) })
}

// Append adds a slice. See plane.Store.
func (n *MemoryNode) Append(ctx context.Context, slice plane.Slice) (plane.Row, error) {
	return through(ctx, n, func(ctx context.Context) (plane.Row, error) { return n.Memory.Append(ctx, slice) })
}

// Seal ends a stream. See plane.Store.
func (n *MemoryNode) Seal(ctx context.Context, seal plane.Seal) (plane.Row, error) {
	return through(ctx, n, func(ctx context.Context) (plane.Row, error) { return n.Memory.Seal(ctx, seal) })
}

// Read answers a stream's row. See plane.Store.
func (n *MemoryNode) Read(ctx context.Context, id string) (plane.Row, error) {
	return through(ctx, n, func(ctx context.Context) (plane.Row, error) { return n.Memory.Read(ctx, id) })
}

// Disown gives up a stream. See plane.Handover.
func (n *MemoryNode) Disown(ctx context.Context, id, token string, session int64) (plane.Row, error) {
	return through(ctx, n, func(ctx context.Context) (plane.Row, error) { return n.Memory.Disown(ctx, id, token, session) })
}

// Adopt takes over a stream that was given up. See plane.Handover.
func (n *MemoryNode) Adopt(ctx context.Context, id, mark, node string) (plane.Row, error) {
	return through(ctx, n, func(ctx context.Context) (plane.Row, error) { return n.Memory.Adopt(ctx, id, mark, node) })
}

// TakeOver takes a stream over whose owner is dead. See plane.Takeover.
func (n *MemoryNode) TakeOver(ctx context.Context, token string, claim plane.Claim) (plane.Row, error) {
	return through(ctx, n, func(ctx context.Context) (plane.Row, error) { return n.Memory.TakeOver(ctx, token, claim) })
}

// Cancel sets the cancel flag. See store.Store.
func (n *MemoryNode) Cancel(ctx context.Context, id string) (plane.Row, error) {
	return through(ctx, n, func(ctx context.Context) (plane.Row, error) { return n.Memory.Cancel(ctx, id) })
}

// Get answers all of a stream but its text. See store.Store.
func (n *MemoryNode) Get(ctx context.Context, id string) (store.Stream, error) {
	return through(ctx, n, func(ctx context.Context) (store.Stream, error) { return n.Memory.Get(ctx, id) })
}

// Text answers a page of text. See store.Store.
func (n *MemoryNode) Text(ctx context.Context, id string, from, limit int64) (store.Page, error) {
	return through(ctx, n, func(ctx context.Context) (store.Page, error) { return n.Memory.Text(ctx, id, from, limit) })
}

// List answers a page of streams. See store.Store.
func (n *MemoryNode) List(ctx context.Context, q store.Query) ([]store.Stream, error) {
	return through(ctx, n, func(ctx context.Context) ([]store.Stream, error) { return n.Memory.List(ctx, q) })
}

// Ping is a read of nothing. See store.Store.
func (n *MemoryNode) Ping(ctx context.Context) error {
	return n.do(ctx, n.Memory.Ping)
}

// TakeName makes a node's name this store's alone. See store.Named.
func (n *MemoryNode) TakeName(ctx context.Context, node string) error {
	return n.locked(ctx, func() error { return n.take(node) })
}

// take is TakeName under the lock.
func (n *MemoryNode) take(node string) error {
	if other := n.db.names[node]; other != nil && other != n {
		return fmt.Errorf("take the name %q: %w", node, store.ErrNameInUse)
	}
	n.db.names[node], n.wanted[node] = n, true
	return nil
}

// Supersede ends the leases of a node's earlier runs. See store.Named.
func (n *MemoryNode) Supersede(ctx context.Context, node, incarnation string) error {
	if err := rows.CheckRun(node, incarnation); err != nil {
		return err
	}
	return n.locked(ctx, func() error {
		if err := n.take(node); err != nil {
			return err
		}
		now := time.Now()
		for run, l := range n.db.leases {
			if run.Name == node && run.Incarnation != incarnation && l.Expires.After(now) {
				l.Expires = now
			}
		}
		return nil
	})
}

// Renew makes a node's lease last ttl from now on. See store.Shared.
func (n *MemoryNode) Renew(ctx context.Context, node store.Node, ttl time.Duration) (since time.Time, err error) {
	err = n.locked(ctx, func() error {
		for name := range n.wanted {
			if err := n.take(name); err != nil {
				return err
			}
		}
		since = n.db.lease(node, ttl)
		return nil
	})
	return since, err
}

// Release gives up a node's lease. See store.Shared.
func (n *MemoryNode) Release(ctx context.Context, node store.Node) error {
	return n.locked(ctx, func() error {
		delete(n.db.leases, runAlone(node))
		return nil
	})
}

// Nodes answers those whose lease lasts. See store.Shared.
func (n *MemoryNode) Nodes(ctx context.Context) (list []store.Node, err error) {
	err = n.locked(ctx, func() error {
		list = nil
		for _, run := range n.db.sorted() {
			if n.db.leases[run].Expires.After(time.Now()) {
				at := n.db.addrs[run]
				at.Name, at.Incarnation = run.Name, run.Incarnation
				list = append(list, at)
			}
		}
		return nil
	})
	return list, err
}

// Sweep seals orphans. See store.Shared.
func (n *MemoryNode) Sweep(ctx context.Context, node store.Node, grace time.Duration) (count int, err error) {
	err = n.locked(ctx, func() error {
		count = n.db.sweep(node, grace)
		return nil
	})
	return count, err
}

// DeleteEnded deletes streams that ended long ago. See store.Shared.
func (n *MemoryNode) DeleteEnded(ctx context.Context, age time.Duration) (count int, err error) {
	err = n.locked(ctx, func() error {
		count = n.db.deleteEnded(age)
		return nil
	})
	return count, err
}

// Close waits for calls under way, and lets go of the node's names. See store.Store.
func (n *MemoryNode) Close(ctx context.Context) error {
	return n.calls.Close(ctx, func() error {
		n.letGo()
		return nil
	})
}

// letGo gives the names back.
func (n *MemoryNode) letGo() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, of := range n.db.names {
		if of == n {
			delete(n.db.names, name)
		}
	}
}
