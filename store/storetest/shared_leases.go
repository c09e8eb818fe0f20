package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/lease"
)

func leaseLasts(t *testing.T, db Database) {
	s := db.Open(t)
	renew := func(n store.Node) {
		t.Helper()
		if _, err := s.Renew(bounded(t), n, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	lasting := func(want ...store.Node) {
		t.Helper()
		got := must(s.Nodes(bounded(t)))(t)
		if len(got)+len(want) > 0 {
			equal(t, got, want)
		}
	}
	lasting()
	one := store.Node{Name: "n1", Incarnation: "boot1", HTTPAddr: "127.0.0.1:1", GossipAddr: "127.0.0.1:2"}
	two := store.Node{Name: "n1", Incarnation: "boot2"}
	renew(two)
	renew(one)
	lasting(one, two)
	one.HTTPAddr = "127.0.0.1:3"
	renew(one)
	lasting(one, two)
	db.EditLease(one, func(l *Lease) { l.Expires = time.Now().Add(-time.Second) })
	lasting(two)
	renew(one) // it was late
	lasting(one, two)
	for range 2 {
		if err := s.Release(bounded(t), two); err != nil {
			t.Error(err)
		}
	}
	lasting(one)
	l := db.Leases()[0]
	if ttl := l.Expires.Sub(l.Heartbeat).Round(time.Second); ttl != time.Hour || time.Since(l.Heartbeat).Abs() > time.Minute {
		t.Errorf("the lease is %+v", l)
	}
	if err := s.Close(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Renew(bounded(t), one, time.Hour); err == nil {
		t.Error("a closed store renews a lease")
	}
}

// A machine was suspended, and its process had no word of that from its clock.
func leaseGap(t *testing.T, db Database) {
	s := db.Open(t)
	const ttl = time.Hour
	renew := func() time.Time {
		t.Helper()
		return must(s.Renew(bounded(t), runOf("n1"), ttl))(t)
	}
	began := renew()
	if again := renew(); !again.Equal(began) {
		t.Errorf("it had no gap since %v, and then since %v", began, again)
	}
	db.StepClock(ttl / 2) // in time
	late := renew()
	if again := renew(); !again.Equal(late) || late.Sub(began.Add(-ttl/2)).Abs() > time.Second {
		t.Errorf("renewed in time: no gap since %v, then %v, then %v", began, late, again)
	}
	gaps := []func(){
		func() { db.StepClock(2 * ttl) },
		func() {
			if err := s.Release(bounded(t), runOf("n1")); err != nil {
				t.Error(err)
			}
		},
	}
	for n, gap := range gaps {
		before := renew()
		<-time.After(10 * time.Millisecond)
		gap()
		since := renew()
		if again := renew(); !since.After(before) || !again.Equal(since) { // as if the first had got no answer
			t.Errorf("gap %d: no gap since %v, then %v, then %v", n, before, since, again)
		}
	}
}

func leaseGapKept(t *testing.T, db Database) {
	regained := make(chan struct{}, 10)
	k, err := lease.Keep(t.Context(), lease.Config{
		Store: db.Open(t), Node: runOf("n1"), TTL: 2 * time.Second, Regained: func() { regained <- struct{}{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Stop()
	db.StepClock(time.Minute)
	select {
	case <-regained:
	case <-time.After(time.Minute):
		t.Error("it hears nothing")
	}
	if !k.Held() {
		t.Error("it is not held")
	}
}

func leaseForgotten(t *testing.T, db Database) {
	s := db.Open(t)
	over(db, runOf("n1"))
	db.EditLease(runOf("n2"), func(l *Lease) { l.Expires = time.Now().Add(-2 * time.Hour) })
	if _, err := s.Renew(bounded(t), runOf("n3"), time.Hour); err != nil {
		t.Fatal(err)
	}
	swept(t, db, s, 0)
	var names []string
	for _, l := range db.Leases() {
		names = append(names, l.Name)
	}
	equal(t, strings.Join(names, " "), "n1 n3 sweeper")
}

func sweepUnsteady(t *testing.T, db Database) {
	s := db.Open(t)
	written(t, s, "n1", "s", "abc")
	over(db, runOf("n1"))
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	for what, edit := range map[string]func(*Lease){
		"over":                   func(l *Lease) { l.Expires, l.Heartbeat = ago(time.Second), ago(time.Hour) },
		"had a gap":              func(l *Lease) { l.Since = ago(time.Minute) },
		"not renewed for a time": func(l *Lease) { l.Expires, l.Heartbeat = ago(-20*time.Minute), ago(40*time.Minute) },
	} {
		steady(db, sweeper)
		db.EditLease(sweeper, edit)
		if n, err := s.Sweep(bounded(t), sweeper, grace); n != 0 || err != nil {
			t.Errorf("%s: swept %d, %v", what, n, err)
		}
	}
	if n, err := s.Sweep(bounded(t), runOf("nobody"), grace); n != 0 || err != nil {
		t.Errorf("none: swept %d, %v", n, err)
	}
	swept(t, db, s, 1)
}

// To rows, a step forward of the clock is that all times in them are older.
func sweepAfterStep(t *testing.T, db Database) {
	a, b := db.Open(t), db.Open(t)
	var keepers []*lease.Keeper
	for name, s := range map[string]SharedStore{"n1": a, "n2": b} {
		k, err := lease.Keep(t.Context(), lease.Config{Store: s, Node: runOf(name), TTL: 2 * time.Second, Grace: 4 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(k.Stop)
		keepers = append(keepers, k)
	}
	written(t, a, "n1", "live", "abc")
	count := func() (n int64) {
		for _, k := range keepers {
			n += k.Stats().Swept
		}
		return n
	}
	for step := range 3 {
		// Those of a node that is gone show that there is somebody who sweeps.
		written(t, b, "n3", fmt.Sprint("gone", step), "abc")
		over(db, runOf("n3"))
		for deadline := time.Now().Add(time.Minute); count() <= int64(step); <-time.After(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d swept before step %d", count(), step)
			}
		}
		db.StepClock(time.Minute)
	}
	<-time.After(3 * time.Second) // sweeps that come before the other's renewal
	equal(t, must(a.Read(bounded(t), "live"))(t).Status, plane.StatusStreaming)
}
