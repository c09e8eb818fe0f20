package storetest

import (
	"context"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/feed"
)

// SharedStore is a store of a database that several nodes share, each with one of
// its own.
type SharedStore interface {
	store.Store
	store.Named
	store.Shared
	Notify(ctx context.Context, messages []string) error
	Listen(ctx context.Context, to feed.Listener)
	Cancelled(ctx context.Context, node string) (ids []string, err error)
}

// Database is a database that several nodes share, with what a test does to it past
// them all.
type Database interface {
	Backdoor

	// Open returns one more store, which ends with the test.
	Open(tb testing.TB) SharedStore

	// Leases are all, also those that are over, in the order of their names and
	// incarnations.
	Leases() []Lease

	// EditLease changes a lease, or makes one.
	EditLease(node store.Node, edit func(*Lease))

	// StepClock makes the times in all leases older, at once, as a step forward of the
	// database's clock does.
	StepClock(by time.Duration)

	// EndNames takes the names away from those who have taken them, as the loss of
	// what holds them does.
	EndNames()

	// Cancel sets a row's cancel flag, as an application's own SQL does.
	Cancel(id string)
}

// Lease is a row of a node's lease.
type Lease struct {
	Name, Incarnation         string
	Heartbeat, Expires, Since time.Time
}

// RunShared holds a database that several nodes share to its contract. make answers
// one that is empty.
func RunShared(t *testing.T, make func(testing.TB) Database) {
	for name, test := range map[string]func(*testing.T, Database){
		"a contested id has one owner":                   contest,
		"a name is one running node's":                   nameInUse,
		"a name that was lost is taken anew":             nameLost,
		"a name that another has is not renewed":         nameOfAnother,
		"a name is as it was after a call in vain":       nameInVain,
		"a name ends the leases of earlier runs":         nameSupersedes,
		"a lease lasts until it runs out or is given up": leaseLasts,
		"a renewal tells of a gap":                       leaseGap,
		"a keeper of a lease hears of a gap":             leaseGapKept,
		"leases that are over for long are forgotten":    leaseForgotten,
		"who has no steady lease sweeps nothing":         sweepUnsteady,
		"a step of the clock seals no live stream":       sweepAfterStep,
		"a stream is swept after the grace":              sweepGrace,
		"what is swept has its whole text":               sweepText,
		"sweepers share the work":                        sweepTogether,
		"a sweep and the owner's seal":                   sweepAndSeal,
		"what an earlier run left is swept in time":      sweepSuperseded,
		"a takeover waits for the end of a lease":        takeLeased,
		"a takeover and a sweep":                         takeAndSweep,
		"a takeover and a renewal":                       takeAndRenew,
		"a stream that was taken over is deleted":        takeDeleted,
		"streams that ended long ago are deleted":        deleteOld,
		"an id that was deleted has a higher epoch":      deleteEpoch,
		"messages reach all who listen":                  feedMessages,
		"a cancel by plain SQL is told once":             feedCancel,
		"cancelled streams of a node":                    feedCancelled,
	} {
		t.Run(name, func(t *testing.T) { test(t, make(t)) })
	}
}

// grace is that of sweeps.
const grace = 30 * time.Second

// runOf is a node's run boot1.
func runOf(name string) store.Node { return store.Node{Name: name, Incarnation: "boot1"} }

// sweeper is who sweeps.
var sweeper = runOf("sweeper")

// steady gives a node a lease that had no gap for long.
func steady(db Database, node store.Node) {
	db.EditLease(node, func(l *Lease) {
		now := time.Now()
		l.Heartbeat, l.Expires, l.Since = now, now.Add(time.Hour), now.Add(-24*time.Hour)
	})
}

// over makes the streams of a node orphans: its lease ended long ago.
func over(db Database, node store.Node) {
	db.EditLease(node, func(l *Lease) { l.Expires = time.Now().Add(-time.Minute) })
}

func swept(t *testing.T, db Database, s SharedStore, want int) {
	t.Helper()
	steady(db, sweeper)
	equal(t, must(s.Sweep(bounded(t), sweeper, grace))(t), want)
}

// aged makes a row look as if it had not changed for a minute.
func aged(db Database, id string) {
	db.Edit(id, func(r *Row) { r.Updated = time.Now().Add(-time.Minute) })
}

// written opens a stream on the node's run boot1 and appends texts, and answers the
// row.
func written(t *testing.T, s store.Store, name, id string, texts ...string) plane.Row {
	t.Helper()
	row := must(s.Open(bounded(t), plane.Claim{ID: id, Node: name + "/boot1"}))(t)
	for _, text := range texts {
		row = must(s.Append(bounded(t), plane.Slice{
			ID: id, Token: row.Token, From: row.Seq, Seq: row.Seq + plane.Units(text), Text: text,
		}))(t)
	}
	return row
}

// wantStream fails the test unless a stream is as said.
func wantStream(t *testing.T, s store.Store, id string, status plane.Status, text string) {
	t.Helper()
	row := must(s.Read(bounded(t), id))(t)
	got := must(whole(bounded(t), s, id, 40_000))(t)
	if row.Status != status || got != text || row.Seq != plane.Units(text) {
		t.Errorf("%s is %+v with %d bytes %.40q, want %s, %d bytes", id, row, len(got), got, status, len(text))
	}
}
