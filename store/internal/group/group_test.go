package group_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/internal/group"
)

var (
	errBad  = errors.New("the data is bad")
	errDown = errors.New("the database is down")
)

// database is a Writer that takes a second a write.
type database struct {
	mu      sync.Mutex
	writes  [][]string // the ids of each, in the order of their beginnings
	current int
	most    int             // at once
	bad     map[string]bool // slices that spoil their batch
	down    bool
	locked  string // its answer is an error, others are not kept
}

func (d *database) begin(ids ...string) error {
	d.mu.Lock()
	d.writes = append(d.writes, ids)
	d.current++
	d.most = max(d.most, d.current)
	d.mu.Unlock()
	time.Sleep(time.Second)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.current--
	switch {
	case d.down:
		return errDown
	case slices.ContainsFunc(ids, func(id string) bool { return d.bad[id] }):
		return errBad
	}
	return nil
}

func (d *database) One(_ context.Context, s plane.Slice) (plane.Row, error) {
	return plane.Row{Seq: s.Seq, Token: s.ID}, d.begin(s.ID)
}

func (d *database) Many(_ context.Context, all []plane.Slice) ([]group.Answer, error) {
	ids := make([]string, len(all))
	answers := make([]group.Answer, len(all))
	for n, s := range all {
		ids[n] = s.ID
		answers[n].Row = plane.Row{Seq: s.Seq, Token: s.ID}
		if s.ID == d.locked {
			answers[n] = group.Answer{Err: errBad}
		}
	}
	return answers, d.begin(ids...)
}

func (d *database) Divisible(err error) bool { return errors.Is(err, errBad) }

// burst appends to so many streams at once and waits for all.
func burst(t *testing.T, g *group.Group, ids ...string) (errs map[string]error) {
	t.Helper()
	errs = map[string]error{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for n, id := range ids {
		all.Go(func() {
			time.Sleep(time.Duration(n)) // in this order
			row, err := g.Append(t.Context(), plane.Slice{ID: id, Seq: int64(n)})
			mu.Lock()
			defer mu.Unlock()
			errs[id] = err
			if err == nil && (row.Token != id || row.Seq != int64(n)) {
				t.Errorf("%s is told of %s at %d", id, row.Token, row.Seq)
			}
		})
	}
	all.Wait()
	return errs
}

func names(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("s%04d", i))
	}
	return ids
}

func TestWhatComesWhileBatchesAreUnderWayIsTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d database
		g := group.New(&d)
		began := time.Now()
		for id, err := range burst(t, g, names(40)...) {
			if err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		// The first two at once and alone, then all the others.
		if len(d.writes) != 3 || len(d.writes[0]) != 1 || len(d.writes[1]) != 1 || len(d.writes[2]) != 38 || d.most != 2 {
			t.Errorf("writes %v, %d at once", d.writes, d.most)
		}
		if !slices.IsSorted(d.writes[2]) {
			t.Errorf("not in the order of the ids: %v", d.writes[2])
		}
		if took := time.Since(began); took.Round(time.Second) != 2*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestABatchIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d database
		g := group.New(&d)
		burst(t, g, names(2+2*512+7)...)
		var sizes []int
		for _, ids := range d.writes {
			sizes = append(sizes, len(ids))
		}
		if !slices.Equal(sizes, []int{1, 1, 512, 512, 7}) {
			t.Errorf("batches of %v", sizes)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var d database
		g := group.New(&d)
		var all sync.WaitGroup
		text := strings.Repeat("x", 3<<20)
		for n := range 5 {
			all.Go(func() { _, _ = g.Append(t.Context(), plane.Slice{ID: fmt.Sprint(n), Text: text}) })
		}
		all.Wait()
		for _, ids := range d.writes {
			if len(ids) != 1 {
				t.Errorf("%d texts of 3 MiB in one write", len(ids))
			}
		}
	})
}

// Whatever its id is, and however much others have.
func TestWhoHasWaitedLongestGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d database
		ids := names(2 + 2*group.MaxBatch + 7)
		slices.Reverse(ids)
		burst(t, group.New(&d), ids...)
		for _, batch := range d.writes {
			came := slices.Sorted(slices.Values(ids[:len(batch)]))
			if ids = ids[len(batch):]; !slices.Equal(batch, came) {
				t.Errorf("a batch of %d from %s to %s, not from %s to %s", len(batch), batch[0], batch[len(batch)-1], came[0], came[len(came)-1])
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var d database
		g := group.New(&d)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for _, id := range names(3 * group.MaxBatch) { // each has more as soon as it is answered
			all.Go(func() {
				for ctx.Err() == nil {
					_, _ = g.Append(ctx, plane.Slice{ID: id})
				}
			})
		}
		time.Sleep(time.Minute)
		began := time.Now()
		if _, err := g.Append(t.Context(), plane.Slice{ID: "z"}); err != nil || time.Since(began) > 3*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		cancel()
		all.Wait()
		g.Wait()
	})
}

func TestOneBadSliceCostsOnlyItsOwnStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := database{bad: map[string]bool{"s0013": true, "s0077": true}}
		g := group.New(&d)
		for id, err := range burst(t, g, names(100)...) {
			if errors.Is(err, errBad) != d.bad[id] || err != nil && !d.bad[id] {
				t.Errorf("%s: %v", id, err)
			}
		}
		if len(d.writes) > 2*2*7+3 {
			t.Errorf("%d writes", len(d.writes))
		}
	})
}

func TestALockedRowIsToldSoAndKeepsBackNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := database{locked: "s0013"}
		g := group.New(&d)
		for id, err := range burst(t, g, names(100)...) {
			if (err != nil) != (id == d.locked) {
				t.Errorf("%s: %v", id, err)
			}
		}
		if len(d.writes) != 3 {
			t.Errorf("%d writes", len(d.writes))
		}
	})
}

func TestADatabaseThatIsDownIsNotAskedInHalves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := database{down: true}
		g := group.New(&d)
		for id, err := range burst(t, g, names(100)...) {
			if !errors.Is(err, errDown) {
				t.Errorf("%s: %v", id, err)
			}
		}
		if len(d.writes) != 3 {
			t.Errorf("%d writes", len(d.writes))
		}
	})
}

// A repeat may come while the write that it repeats is still under way.
func TestTwoSlicesOfOneStreamGoOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d database
		g := group.New(&d)
		burst(t, g, "a", "b", "a", "a", "c", "b")
		for _, ids := range d.writes {
			if len(slices.Compact(slices.Sorted(slices.Values(ids)))) != len(ids) {
				t.Errorf("one write has %v", ids)
			}
		}
		if fmt.Sprint(d.writes) != "[[a] [b] [a c] [b] [a]]" && fmt.Sprint(d.writes) != "[[a] [b] [a b c] [a]]" {
			t.Errorf("writes %v", d.writes)
		}
	})
}

func TestWhoGivesUpIsNotWrittenAndWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d database
		g := group.New(&d)
		var all sync.WaitGroup
		all.Go(func() { burst(t, g, "a", "b") })
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := g.Append(ctx, plane.Slice{ID: "c"})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 100*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		all.Wait()
		synctest.Wait()
		if len(d.writes) != 2 {
			t.Errorf("writes %v", d.writes)
		}
	})
}

// A batch goes on for those who still wait for it.
func TestABatchLastsAsLongAsItsMostPatientMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var until time.Duration
		began := time.Now()
		g := group.New(writer(func(ctx context.Context, all []plane.Slice) ([]group.Answer, error) {
			<-ctx.Done()
			if len(all) == 2 {
				until = time.Since(began)
			}
			return nil, ctx.Err()
		}))
		var all sync.WaitGroup
		for n, id := range []string{"x", "y", "a", "b"} {
			all.Go(func() {
				time.Sleep(time.Duration(n))
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n+1)*time.Second)
				defer cancel()
				if _, err := g.Append(ctx, plane.Slice{ID: id}); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v", id, err)
				}
			})
		}
		all.Wait()
		synctest.Wait()
		if until.Round(time.Second) != 4*time.Second {
			t.Errorf("the batch was given up after %v", until)
		}
	})
}

type writer func(context.Context, []plane.Slice) ([]group.Answer, error)

func (w writer) One(ctx context.Context, s plane.Slice) (plane.Row, error) {
	_, err := w(ctx, []plane.Slice{s})
	return plane.Row{}, err
}

func (w writer) Many(ctx context.Context, all []plane.Slice) ([]group.Answer, error) {
	return w(ctx, all)
}

func (w writer) Divisible(error) bool { return false }
