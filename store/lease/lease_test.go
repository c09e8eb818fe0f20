package lease_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/lease"
)

var self = store.Node{Name: "n1", Incarnation: "boot1"}

// database is a store.Shared that does as it is told and notes when.
type database struct {
	began time.Time

	mu       sync.Mutex // guards below
	down     error      // what calls answer
	hangs    bool       // calls answer nothing until their context ends
	orphans  int        // of which a sweep seals 10
	old      int        // which a call deletes
	renewals []time.Duration
	sweeps   []time.Duration
	released int
	since    time.Time // of the lease
}

func newDatabase() *database { return &database{began: time.Now()} }

func (d *database) set(change func(*database)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

// answer is how a call goes.
func (d *database) answer(ctx context.Context) error {
	d.mu.Lock()
	down, hangs := d.down, d.hangs
	d.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return down
}

func (d *database) Renew(ctx context.Context, node store.Node, ttl time.Duration) (since time.Time, err error) {
	d.set(func(d *database) { d.renewals = append(d.renewals, time.Since(d.began)) })
	if node != self || ttl != lease.DefaultTTL {
		return since, errors.New("not the lease that was asked for")
	}
	d.set(func(d *database) { since = d.since })
	return since, d.answer(ctx)
}

func (d *database) Release(context.Context, store.Node) error {
	d.set(func(d *database) { d.released++ })
	return nil
}

func (d *database) Nodes(context.Context) ([]store.Node, error) { return nil, nil }

func (d *database) Sweep(ctx context.Context, node store.Node, grace time.Duration) (n int, err error) {
	if node != self || grace != lease.DefaultGrace {
		return 0, errors.New("not the sweep that was asked for")
	}
	d.set(func(d *database) {
		d.sweeps = append(d.sweeps, time.Since(d.began))
		n = min(d.orphans, 10)
		d.orphans -= n
	})
	return n, d.answer(ctx)
}

func (d *database) DeleteEnded(ctx context.Context, age time.Duration) (n int, err error) {
	d.set(func(d *database) { n, d.old = d.old, 0 })
	return n, d.answer(ctx)
}

func (d *database) times() (renewals, sweeps []time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.renewals), slices.Clone(d.sweeps)
}

// kept runs a test in a bubble with a keeper of a lease.
func kept(t *testing.T, prepare func(*database, *lease.Config), test func(*testing.T, *database, *lease.Keeper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		cfg := lease.Config{Store: db, Node: self}
		if prepare != nil {
			prepare(db, &cfg)
		}
		k, err := lease.Keep(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer k.Stop()
		test(t, db, k)
	})
}

// pass lets virtual time pass, and what is due then happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestALeaseIsRenewedEveryThreeSeconds(t *testing.T) {
	kept(t, nil, func(t *testing.T, db *database, k *lease.Keeper) {
		if !k.Held() {
			t.Error("it is not held from the start")
		}
		pass(13 * time.Second)
		if got, _ := db.times(); !slices.Equal(got, []time.Duration{0, 3e9, 6e9, 9e9, 12e9}) {
			t.Errorf("renewed at %v", got)
		}
		if s := k.Stats(); !s.Held || s.Failed != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestALeaseIsTrustedForEightSecondsFromTheBeginningOfItsLastRenewal(t *testing.T) {
	down := errors.New("the database is down")
	for name, fail := range map[string]func(*database){
		"calls fail": func(d *database) { d.down = down },
		"calls hang": func(d *database) { d.hangs = true },
	} {
		t.Run(name, func(t *testing.T) {
			kept(t, nil, func(t *testing.T, db *database, k *lease.Keeper) {
				pass(4 * time.Second) // renewed at 3 s
				db.set(fail)
				pass(7*time.Second - time.Millisecond)
				if !k.Held() {
					t.Error("it is lost before 8 s")
				}
				pass(time.Millisecond)
				if k.Held() {
					t.Error("it is held after 8 s")
				}
				pass(time.Minute)
				if s := k.Stats(); s.Held || s.Failed < 10 {
					t.Errorf("a minute later: %+v", s)
				}
				db.set(func(d *database) { d.down, d.hangs = nil, false })
				pass(5 * time.Second)
				if !k.Held() {
					t.Error("it does not come back")
				}
			})
		})
	}
}

func TestAnOutageIsLoggedByItsTurns(t *testing.T) {
	var log bytes.Buffer
	prepare := func(db *database, cfg *lease.Config) {
		db.down, cfg.Logger = errors.New("down"), slog.New(slog.NewTextHandler(&log, nil))
	}
	kept(t, prepare, func(t *testing.T, db *database, k *lease.Keeper) {
		for range 2 {
			pass(time.Minute)
			db.set(func(d *database) { d.down = nil })
			pass(time.Minute)
			db.set(func(d *database) { d.down = errors.New("down") })
		}
		k.Stop()
		var said []string
		for line := range strings.Lines(log.String()) {
			if _, line, _ = strings.Cut(strings.TrimSpace(line), "level="); strings.Contains(line, "renew") {
				said = append(said, line)
			}
		}
		const failed, renewed = `WARN msg="could not renew the lease" held=%v error=down`, `INFO msg="the lease is renewed" held=true`
		want := []string{fmt.Sprintf(failed, false), renewed, fmt.Sprintf(failed, true), fmt.Sprintf(failed, false), renewed}
		if diff := cmp.Diff(want, said); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}

func TestALeaseThatIsLostForAMomentComesBackSoon(t *testing.T) {
	kept(t, nil, func(t *testing.T, db *database, k *lease.Keeper) {
		pass(time.Second)
		db.set(func(d *database) { d.down = errors.New("down") })
		pass(6 * time.Second)
		db.set(func(d *database) { d.down = nil })
		pass(999 * time.Millisecond)
		if renewals, _ := db.times(); !k.Held() || renewals[len(renewals)-1] < 7*time.Second {
			t.Errorf("held: %v, tried at %v", k.Held(), renewals)
		}
	})
}

func TestANodeStartsWithoutALeaseAndGetsItLater(t *testing.T) {
	kept(t, func(db *database, _ *lease.Config) { db.down = errors.New("down") }, func(t *testing.T, db *database, k *lease.Keeper) {
		pass(time.Minute)
		if k.Held() {
			t.Error("it is held")
		}
		db.set(func(d *database) { d.down = nil })
		pass(2 * time.Second)
		if !k.Held() {
			t.Error("it is not held")
		}
	})
}

// After an outage of the database every lease has run out, for a moment.
func TestTheSweeperRestsForTwoLeasesAfterAnOutage(t *testing.T) {
	kept(t, nil, func(t *testing.T, db *database, k *lease.Keeper) {
		pass(20*time.Second - time.Millisecond)
		if _, sweeps := db.times(); len(sweeps) != 0 {
			t.Fatalf("swept at %v, and the node is new", sweeps)
		}
		pass(40 * time.Second)
		_, sweeps := db.times()
		if len(sweeps) < 5 || len(sweeps) > 13 {
			t.Errorf("swept at %v", sweeps)
		}
		db.set(func(d *database) { d.down = errors.New("down") })
		pass(10 * time.Second)
		_, before := db.times()
		pass(50 * time.Second)
		db.set(func(d *database) { d.down = nil }) // at 120 s
		pass(20 * time.Second)
		if _, sweeps := db.times(); len(sweeps) != len(before) {
			t.Errorf("swept at %v", sweeps[len(before):])
		}
		pass(10 * time.Second)
		if _, sweeps := db.times(); len(sweeps) == len(before) {
			t.Error("it has not begun again")
		}
	})
}

// Its own clock stood still, as while a machine is suspended.
func TestAGapThatOnlyTheDatabaseHasSeenIsOne(t *testing.T) {
	regained := 0
	prepare := func(_ *database, cfg *lease.Config) { cfg.Regained = func() { regained++ } }
	kept(t, prepare, func(t *testing.T, db *database, k *lease.Keeper) {
		pass(time.Minute)
		if regained != 0 {
			t.Errorf("regained %d times, and it was never lost", regained)
		}
		_, before := db.times()
		db.set(func(d *database) { d.since = time.Now() })
		pass(3 * time.Second)
		if regained != 1 || !k.Held() {
			t.Errorf("held: %v, regained %d times", k.Held(), regained)
		}
		pass(19 * time.Second)
		_, after := db.times()
		if most := len(before) + 1; len(after) > most { // one before the renewal
			t.Errorf("swept at %v", after[len(before):])
		}
		pass(20 * time.Second)
		if _, sweeps := db.times(); regained != 1 || len(sweeps) <= len(after) {
			t.Errorf("regained %d times, swept at %v", regained, sweeps[len(after):])
		}
	})
}

// Else the nodes of a cluster that was started at once would all look at once.
func TestSweepsKeepNoBeat(t *testing.T) {
	kept(t, nil, func(t *testing.T, db *database, k *lease.Keeper) {
		pass(10 * time.Minute)
		_, sweeps := db.times()
		pauses := make(map[time.Duration]bool)
		for n, at := range sweeps[1:] {
			pause := at - sweeps[n]
			if pauses[pause] = true; pause < 3750*time.Millisecond || pause > 6250*time.Millisecond {
				t.Errorf("swept after %v", pause)
			}
		}
		if len(sweeps) < 90 || len(pauses) < len(sweeps)/2 {
			t.Errorf("%d sweeps with %d different pauses", len(sweeps), len(pauses))
		}
	})
}

func TestARenewalThatIsLateButInTimeLeavesNoGap(t *testing.T) {
	kept(t, nil, func(t *testing.T, db *database, k *lease.Keeper) {
		pass(30 * time.Second)
		for range 10 { // down for 4 s in 10
			db.set(func(d *database) { d.down = errors.New("down") })
			pass(4 * time.Second)
			_, before := db.times()
			db.set(func(d *database) { d.down = nil })
			pass(8 * time.Second)
			if _, after := db.times(); len(after) == len(before) {
				t.Fatalf("it swept at %v and not since", after)
			}
		}
	})
}

func TestASweepEndsWithTheTermThatItBeganIn(t *testing.T) {
	kept(t, func(db *database, _ *lease.Config) { db.orphans = 35 }, func(t *testing.T, db *database, k *lease.Keeper) {
		pass(19 * time.Second)
		db.set(func(d *database) { d.hangs = true })
		pass(time.Minute)
		_, sweeps := db.times()
		if len(sweeps) > 2 {
			t.Errorf("swept at %v, and the lease was lost", sweeps)
		}
		db.set(func(d *database) { d.hangs = false })
		pass(time.Minute)
		if s := k.Stats(); s.Swept != 35 {
			t.Errorf("%+v", s)
		}
	})
}

func TestATurnOfTheLeaseIsToldAtOnce(t *testing.T) {
	var turns []string
	prepare := func(db *database, cfg *lease.Config) {
		cfg.Turned = func(held bool) { turns = append(turns, fmt.Sprint(held, " at ", time.Since(db.began))) }
	}
	kept(t, prepare, func(t *testing.T, db *database, k *lease.Keeper) {
		pass(3 * time.Second) // renewed
		db.set(func(d *database) { d.down = errors.New("down") })
		pass(10 * time.Second)
		db.set(func(d *database) { d.down = nil })
		pass(time.Minute)
		db.set(func(d *database) { d.hangs = true })
		pass(time.Minute)
		k.Stop()
		want := []string{"false at 11s", "true at 14s"}
		if len(turns) != 3 || !slices.Equal(turns[:2], want) || !strings.HasPrefix(turns[2], "false") {
			t.Errorf("told %q", turns)
		}
	})
}

func TestOldStreamsAreDeletedIfThatIsAskedFor(t *testing.T) {
	for _, retention := range []time.Duration{0, time.Hour} {
		prepare := func(db *database, cfg *lease.Config) { db.old, cfg.Retention = 250, retention }
		kept(t, prepare, func(t *testing.T, db *database, k *lease.Keeper) {
			pass(2 * time.Minute)
			want := int64(0)
			if retention > 0 {
				want = 250
			}
			if s := k.Stats(); s.Deleted != want {
				t.Errorf("retention %v: %+v", retention, s)
			}
		})
	}
}

func TestAKeeperThatIsStoppedDoesNothingMore(t *testing.T) {
	kept(t, nil, func(t *testing.T, db *database, k *lease.Keeper) {
		pass(time.Minute)
		k.Stop()
		renewals, sweeps := db.times()
		pass(time.Minute)
		if r, s := db.times(); len(r) != len(renewals) || len(s) != len(sweeps) || db.released != 0 {
			t.Errorf("renewed at %v, swept at %v, released %d times", r[len(renewals):], s[len(sweeps):], db.released)
		}
		if k.Held() {
			t.Error("the lease does not run out")
		}
		for range 2 {
			if err := k.Release(t.Context()); err != nil || db.released != 1 {
				t.Errorf("released %d times, %v", db.released, err)
			}
		}
	})
}

func TestALeaseIsNotHeldOnceItIsReleased(t *testing.T) {
	kept(t, nil, func(t *testing.T, db *database, k *lease.Keeper) {
		if err := k.Release(t.Context()); err != nil || k.Held() {
			t.Errorf("held: %v, %v", k.Held(), err)
		}
	})
}

func TestAKeeperRefusesWhatItCannotKeep(t *testing.T) {
	db := newDatabase()
	for name, cfg := range map[string]lease.Config{
		"no store":           {Node: self},
		"no node":            {Store: db},
		"no incarnation":     {Store: db, Node: store.Node{Name: "n1"}},
		"a negative lease":   {Store: db, Node: self, TTL: -1},
		"negative grace":     {Store: db, Node: self, Grace: -1},
		"negative retention": {Store: db, Node: self, Retention: -1},
	} {
		if _, err := lease.Keep(t.Context(), cfg); !errors.Is(err, plane.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
