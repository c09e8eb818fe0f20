package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// What plane.Store says of one append holds for each of a batch.
func TestEachSliceOfABatchIsJudgedByItsOwnRow(t *testing.T) {
	t.Parallel()
	for mode, careful := range map[string]bool{"that waits": false, "that is careful": true} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			s, db := open(t, url+lockWait), pgtest.Pool(t, url)
			for _, id := range []string{"fits", "behind", "another's", "cancelled", "ended", "repeated", "locked"} {
				claim(t, s, id)
			}
			for _, sql := range []string{
				"UPDATE rillkeep.streams SET seq = 2 WHERE id = 'behind'",
				"UPDATE rillkeep.streams SET host = 'n2/boot1/2', epoch = 2 WHERE id = 'another''s'",
				"UPDATE rillkeep.streams SET cancel = true WHERE id = 'cancelled'",
				"UPDATE rillkeep.streams SET status = 'interrupted' WHERE id = 'ended'",
				"UPDATE rillkeep.streams SET seq = 3 WHERE id = 'repeated'; INSERT INTO rillkeep.chunks VALUES ('repeated', 3, 'abc')",
			} {
				if _, err := db.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			hold(t, db, "locked")
			streaming := plane.Row{Seq: 3, Status: plane.StatusStreaming, Token: token, Epoch: 1}
			want := map[string]plane.Row{
				"fits": streaming, "repeated": streaming,
				"behind":    {Seq: 2, Status: plane.StatusStreaming, Token: token, Epoch: 1},
				"another's": {Status: plane.StatusStreaming, Token: "n2/boot1/2", Epoch: 2},
				"cancelled": {Seq: 3, Status: plane.StatusStreaming, Cancel: true, Token: token, Epoch: 1},
				"ended":     {Status: plane.StatusInterrupted, Token: token, Epoch: 1},
			}
			wantErr := map[string]error{"locked": store.ErrBusy, "missing": plane.ErrNotFound}
			var batch []plane.Slice
			for _, id := range []string{"another's", "behind", "cancelled", "ended", "fits", "locked", "missing", "repeated"} {
				batch = append(batch, plane.Slice{ID: id, Token: token, Seq: 3, Text: "abc"})
			}
			answers, err := postgres.AppendMany(t.Context(), s, careful, batch)
			if err != nil {
				t.Fatal(err)
			}
			for n, got := range answers {
				id := batch[n].ID
				if got.Row != want[id] || !errors.Is(got.Err, wantErr[id]) {
					t.Errorf("%s: %+v, %v", id, got.Row, got.Err)
				}
			}
			var landed []string
			err = db.QueryRow(t.Context(), "SELECT array_agg(stream_id || seq || text ORDER BY 1) FROM rillkeep.chunks").Scan(&landed)
			slices.Sort(landed)
			if err != nil || !slices.Equal(landed, []string{"cancelled3abc", "fits3abc", "repeated3abc"}) {
				t.Errorf("chunks %v (%v)", landed, err)
			}
		})
	}
}

// An append is one statement and one round trip: the proxy sees each request.
func TestAnAppendIsOneStatement(t *testing.T) {
	t.Parallel()
	p := pgtest.NewProxy(t, pgtest.URL(t))
	s := open(t, p.URL()+"&pool_max_conns=1")
	row := claim(t, s, "s")
	grow := func(text string) {
		t.Helper()
		next, err := s.Append(t.Context(), plane.Slice{ID: "s", Token: token, From: row.Seq, Seq: row.Seq + int64(len(text)), Text: text})
		if err != nil || next.Seq != row.Seq+int64(len(text)) {
			t.Fatalf("%+v, %v", next, err)
		}
		row = next
	}
	grow("prepared")
	var seen []string
	defer p.On(func(sql string) bool { seen = append(seen, sql); return false }, pgtest.CutBefore)()
	grow("counted")
	if len(seen) != 1 || !strings.Contains(seen[0], "UPDATE") || !strings.Contains(seen[0], "INSERT") {
		t.Errorf("%d statements: %q", len(seen), seen)
	}
}

// streams appends to many streams at once, step after step, and answers the
// errors of each.
func appendAll(ctx context.Context, t *testing.T, s store.Store, ids []string, steps int, text func(id string) string) map[string]error {
	t.Helper()
	errs := map[string]error{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, id := range ids {
		row := claim(t, s, id)
		all.Go(func() {
			delta := text(id)
			for range steps {
				next, err := s.Append(ctx, plane.Slice{ID: id, Token: token, From: row.Seq, Seq: row.Seq + int64(len(delta)), Text: delta})
				if err != nil {
					mu.Lock()
					errs[id] = err
					mu.Unlock()
					return
				}
				row = next
			}
		})
	}
	all.Wait()
	return errs
}

func ids(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("s%03d", i))
	}
	return all
}

func TestALockedRowCostsNoOtherOfItsBatches(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url+lockWait), pgtest.Pool(t, url)
	claim(t, s, "locked")
	_, release := hold(t, db, "locked")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	busy, done := 0, make(chan struct{})
	var tries sync.WaitGroup
	tries.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if _, err := s.Append(ctx, plane.Slice{ID: "locked", Token: token, Seq: 3, Text: "abc"}); !errors.Is(err, store.ErrBusy) {
				t.Errorf("of the locked row: %v", err)
				return
			}
			busy++
		}
	})
	for id, err := range appendAll(ctx, t, s, ids(100), 20, func(string) string { return "text" }) {
		t.Errorf("%s: %v", id, err)
	}
	close(done)
	tries.Wait()
	if busy < 2 {
		t.Errorf("told %d times that it is locked", busy)
	}
	release()
	if row, err := s.Append(ctx, plane.Slice{ID: "locked", Token: token, Seq: 3, Text: "abc"}); err != nil || row.Seq != 3 {
		t.Errorf("once it is free: %+v, %v", row, err)
	}
}

func TestABadSliceCostsNoOtherOfItsBatches(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url), pgtest.Pool(t, url)
	if _, err := db.Exec(t.Context(), "ALTER TABLE rillkeep.chunks ADD CHECK (text NOT LIKE '%bad%')"); err != nil {
		t.Fatal(err)
	}
	bad := func(id string) bool { return strings.HasSuffix(id, "7") }
	errs := appendAll(t.Context(), t, s, ids(100), 10, func(id string) string {
		if bad(id) {
			return "bad"
		}
		return "text"
	})
	for _, id := range ids(100) {
		row, err := s.Read(t.Context(), id)
		switch {
		case err != nil:
			t.Error(err)
		case bad(id) && (errs[id] == nil || row.Seq != 0), !bad(id) && (errs[id] != nil || row.Seq != 40):
			t.Errorf("%s at %d: %v", id, row.Seq, errs[id])
		}
	}
}

// Whatever the server says of one row: that it is damaged, that a policy does not
// let it be written, or what a trigger of the application's makes of it.
func TestARowThatIsRefusedCostsNoOtherOfItsBatches(t *testing.T) {
	for _, code := range []string{"XX001", "42501", "0A000", "38000"} {
		t.Run(code, func(t *testing.T) {
			url := pgtest.URL(t)
			s, db := open(t, url), pgtest.Pool(t, url)
			exec(t, db, `
				CREATE FUNCTION bad() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
					IF NEW.stream_id = 's007' THEN RAISE EXCEPTION 'bad' USING ERRCODE = '`+code+`'; END IF;
					RETURN NEW;
				END $$;
				CREATE TRIGGER bad BEFORE INSERT ON rillkeep.chunks FOR EACH ROW EXECUTE FUNCTION bad()`)
			errs := appendAll(t.Context(), t, s, ids(40), 10, func(string) string { return "text" })
			if len(errs) != 1 || errs["s007"] == nil {
				t.Errorf("got %v", errs)
			}
		})
	}
}
