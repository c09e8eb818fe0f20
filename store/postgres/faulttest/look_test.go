package faulttest_test

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/plane"
)

// row is a stream as the database has it, in one snapshot with all others.
type row struct {
	ID     string
	Seq    int64
	Status plane.Status
	Body   string
	Ends   []int64
	Texts  []string
}

// rows answers all of them, or why the database does not.
func (f *fleet) rows(ctx context.Context) (map[string]row, error) {
	found, err := f.db.Query(ctx, f.keeping.rows)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(found, pgx.RowToStructByPos[row])
	if err != nil {
		return nil, err
	}
	all := make(map[string]row, len(list))
	for _, r := range list {
		all[r.ID] = r
	}
	return all, nil
}

// text puts the pieces of a row together. No two overlap, and none is missing.
func (f *fleet) text(r row) string {
	f.t.Helper()
	text, at := r.Body, plane.Units(r.Body)
	for i, end := range r.Ends {
		if start := end - plane.Units(r.Texts[i]); start != at {
			f.t.Errorf("%s: a chunk from %d to %d follows text that ends at %d", r.ID, start, end, at)
		}
		text, at = text+r.Texts[i], end
	}
	if at != r.Seq {
		f.t.Errorf("%s: its length is %d, its text %d", r.ID, r.Seq, at)
	}
	return text
}

// look holds all rows to what must be so at any time, and reports whether the
// database let it.
func (f *fleet) look(ctx context.Context) bool {
	told := make([]int64, len(f.streams))
	for i, s := range f.streams {
		told[i] = s.told.Load()
		if live, ok := f.system.Stream(s.id); ok {
			told[i] = max(told[i], live.State().Durable)
		}
	}
	rows, err := f.rows(ctx)
	if err != nil {
		return false
	}
	for i, s := range f.streams {
		r := rows[s.id]
		if r.Seq < told[i] {
			f.t.Errorf("%s: %d was said to be durable, the store has %d (H)", s.id, told[i], r.Seq)
		}
		if r.Seq < s.seen {
			f.t.Errorf("%s: the durable length fell from %d to %d (P)", s.id, s.seen, r.Seq)
		}
		if text := f.text(r); !strings.HasPrefix(s.produced(), text) {
			f.t.Errorf("%s: what is durable is no prefix of what was produced (P): %q", s.id, text)
		}
		s.seen = r.Seq
	}
	return true
}

// watch looks again and again.
func (f *fleet) watch() {
	ticks := time.NewTicker(beat)
	defer ticks.Stop()
	looks := 0
	for {
		select {
		case <-ticks.C:
		case <-f.over.Done():
			if looks == 0 {
				f.t.Error("the rows were never seen")
			}
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		if f.look(ctx) {
			looks++
		}
		cancel()
	}
}

// lengths answers the rows' lengths, once the database answers.
func (f *fleet) lengths() map[string]int64 {
	f.t.Helper()
	lengths := make(map[string]int64)
	f.await("the database answers", func(ctx context.Context) bool {
		rows, err := f.rows(ctx)
		for id, r := range rows {
			lengths[id] = r.Seq
		}
		return err == nil
	})
	return lengths
}

// await waits until ok, which is asked again and again.
func (f *fleet) await(what string, ok func(ctx context.Context) bool) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for !ok(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.t.Fatalf("waited %v for this: %s", patience, what)
		}
	}
}

// land ends all streams, and returns when every row has ended with all that was
// produced.
func (f *fleet) land() {
	f.t.Helper()
	f.stop()
	f.work.Wait()
	var rows map[string]row
	f.await("no row says streaming (L)", func(ctx context.Context) bool {
		var err error
		if rows, err = f.rows(ctx); err != nil {
			return false
		}
		for _, s := range f.streams {
			if !rows[s.id].Status.Ended() {
				return false
			}
		}
		return true
	})
	f.lookAway()
	f.looking.Wait()
	if !f.look(f.t.Context()) {
		f.t.Error("the database does not answer")
	}
	for _, s := range f.streams {
		r, all := rows[s.id], s.produced()
		if text := f.text(r); text != all {
			f.t.Errorf("%s ended with %q of %q", s.id, text, all)
		}
		// Without an answer it was sealed later, or by what had been given up.
		if r.Status != plane.StatusComplete && (s.ended == nil || r.Status != plane.StatusInterrupted) {
			f.t.Errorf("%s is %s; its producer was told %v", s.id, r.Status, s.ended)
		}
	}
}
