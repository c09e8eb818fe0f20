package storetest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

// SharedMemory is a Database in memory: a Memory that several nodes share, each by a
// MemoryNode of its own, whose way to it the test can cut. Like a Memory it lives in
// a testing/synctest bubble.
type SharedMemory struct {
	rows  *Memory
	watch func(Change)

	// Guarded by rows.mu.
	leases map[store.Node]*Lease // by name and incarnation
	addrs  map[store.Node]store.Node
	names  map[string]*MemoryNode

	late sync.WaitGroup // calls that arrive after who made them gave them up

	feed  sync.Mutex // guards below
	heard map[*memoryListener]struct{}
}

var (
	_ Database    = (*SharedMemory)(nil)
	_ SharedStore = (*MemoryNode)(nil)
)

// NewSharedMemory returns an empty database. watch, if not nil, is a Memory's Watch.
func NewSharedMemory(watch func(Change)) *SharedMemory {
	d := &SharedMemory{
		rows: NewMemory(), watch: watch,
		leases: make(map[store.Node]*Lease), addrs: make(map[store.Node]store.Node), names: make(map[string]*MemoryNode),
		heard: make(map[*memoryListener]struct{}),
	}
	d.rows.Watch, d.rows.lasts = d.changed, d.lasts
	return d
}

// changed is the rows' Watch: as in a database that has a trigger for it, a stop that
// somebody asks for is told to all who listen.
func (d *SharedMemory) changed(c Change) {
	if d.watch != nil {
		d.watch(c)
	}
	if c.After.Cancel && !c.Before.Cancel && c.After.Status == plane.StatusStreaming {
		d.tellCancel(c)
	}
}

// Rows is the Memory that all nodes share, with the faults that befall them all.
func (d *SharedMemory) Rows() *Memory { return d.rows }

// Node returns the store of one more node.
func (d *SharedMemory) Node() *MemoryNode {
	return &MemoryNode{Memory: d.rows, db: d, wanted: make(map[string]bool), turned: make(chan struct{})}
}

// Open implements Database, as do the next ones.
func (d *SharedMemory) Open(tb testing.TB) SharedStore {
	n := d.Node()
	tb.Cleanup(func() { _ = n.Close(context.Background()) })
	return n
}

// Row answers a row as an application's own SQL would. See Backdoor.
func (d *SharedMemory) Row(id string) (Row, bool) { return d.rows.Row(id) }

// Edit changes a row, or makes one. See Backdoor.
func (d *SharedMemory) Edit(id string, edit func(*Row)) { d.rows.Edit(id, edit) }

// Delete deletes a row. See Backdoor.
func (d *SharedMemory) Delete(id string) { d.rows.Delete(id) }

// Cancel sets a row's cancel flag.
func (d *SharedMemory) Cancel(id string) { d.rows.Edit(id, func(r *Row) { r.Cancel = true }) }

// Leases are all, in the order of their names and incarnations.
func (d *SharedMemory) Leases() (all []Lease) {
	d.rows.mu.Lock()
	defer d.rows.mu.Unlock()
	for _, n := range d.sorted() {
		all = append(all, *d.leases[n])
	}
	return all
}

// EditLease changes a lease, or makes one.
func (d *SharedMemory) EditLease(node store.Node, edit func(*Lease)) {
	d.rows.mu.Lock()
	defer d.rows.mu.Unlock()
	l := d.leases[runAlone(node)]
	if l == nil {
		l = &Lease{Name: node.Name, Incarnation: node.Incarnation}
		d.leases[runAlone(node)] = l
	}
	edit(l)
}

// StepClock makes the times in all leases older.
func (d *SharedMemory) StepClock(by time.Duration) {
	d.rows.mu.Lock()
	defer d.rows.mu.Unlock()
	for _, l := range d.leases {
		l.Heartbeat, l.Expires, l.Since = l.Heartbeat.Add(-by), l.Expires.Add(-by), l.Since.Add(-by)
	}
}

// EndNames takes the names away from those who have taken them.
func (d *SharedMemory) EndNames() {
	d.rows.mu.Lock()
	defer d.rows.mu.Unlock()
	clear(d.names)
}

// Wait returns when no call is on its way any more that a node gave up.
func (d *SharedMemory) Wait() { d.late.Wait() }

// runAlone is a node without its addresses.
func runAlone(n store.Node) store.Node {
	return store.Node{Name: n.Name, Incarnation: n.Incarnation}
}

// sorted are the runs that have leases. rows.mu is held.
func (d *SharedMemory) sorted() []store.Node {
	return slices.SortedFunc(maps.Keys(d.leases), func(a, b store.Node) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return strings.Compare(a.Incarnation, b.Incarnation)
	})
}

// lease gives a node its lease from now on, and answers since when it had no gap.
// rows.mu is held.
func (d *SharedMemory) lease(node store.Node, ttl time.Duration) (since time.Time) {
	now, run := time.Now(), runAlone(node)
	l := d.leases[run]
	if l == nil {
		l = &Lease{Name: node.Name, Incarnation: node.Incarnation}
		d.leases[run] = l
	}
	if !l.steadyAt(now) || l.Since.After(now) {
		l.Since = now
	}
	l.Heartbeat, l.Expires = now, now.Add(ttl)
	d.addrs[run] = node
	return l.Since
}

// steadyAt reports whether a lease was renewed in time.
func (l *Lease) steadyAt(now time.Time) bool {
	return l.Heartbeat.Add(l.Expires.Sub(l.Heartbeat) * 6 / 10).After(now)
}

// orphaned reports whether a row's owner, or the hand-over that left it, has been
// over since a time. rows.mu is held.
func (d *SharedMemory) orphaned(r *Row, since time.Time) bool {
	if r.Status != plane.StatusStreaming {
		return false
	}
	if l := d.leaseOf(r.Token); l != nil {
		return l.Expires.Before(since)
	}
	return r.Updated.Before(since)
}

// leaseOf is that of a token's owner, nil if it has none. rows.mu is held.
func (d *SharedMemory) leaseOf(token string) *Lease {
	name, incarnation, _ := strings.Cut(plane.NodeOf(token), "/")
	return d.leases[store.Node{Name: name, Incarnation: incarnation}]
}

// lasts reports whether the lease of a token's owner does. rows.mu is held.
func (d *SharedMemory) lasts(token string) bool {
	l := d.leaseOf(token)
	return l != nil && l.Expires.After(time.Now())
}

// sweep is Sweep under the lock.
func (d *SharedMemory) sweep(node store.Node, grace time.Duration) (count int) {
	now := time.Now()
	l := d.leases[runAlone(node)]
	if l == nil || !l.steadyAt(now) || !l.Since.Before(now.Add(-l.Expires.Sub(l.Heartbeat))) {
		return 0
	}
	for id, r := range d.rows.rows {
		if d.orphaned(r, now.Add(-grace)) {
			d.rows.interruptOne("sweep", id, r)
			count++
		}
	}
	for run, l := range d.leases {
		if l.Expires.Before(now.Add(-max(time.Hour, grace))) {
			delete(d.leases, run)
		}
	}
	return count
}

// deleteEnded is DeleteEnded under the lock.
func (d *SharedMemory) deleteEnded(age time.Duration) (count int) {
	m := d.rows
	for id, r := range m.rows {
		if r.Status.Ended() && !r.Ended.IsZero() && time.Since(r.Ended) > age {
			m.past = max(m.past, r.Epoch)
			delete(m.rows, id)
			delete(m.chunks, id)
			count++
		}
	}
	return count
}
