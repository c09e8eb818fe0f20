package postgres_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

const token = "n1/boot1/1"

func claim(t *testing.T, s store.Store, id string) plane.Row {
	t.Helper()
	row, err := s.Open(t.Context(), plane.Claim{ID: id, Node: "n1/boot1"})
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// appends are the ways in which a slice is appended: by itself or in a batch, by
// statements that lock their row first or not.
var appends = map[string]func(context.Context, store.Store, plane.Slice) (plane.Row, error){
	"one": one(false), "one, carefully": one(true), "many": many(false), "many, carefully": many(true),
}

func one(careful bool) func(context.Context, store.Store, plane.Slice) (plane.Row, error) {
	return func(ctx context.Context, s store.Store, slice plane.Slice) (plane.Row, error) {
		return postgres.AppendOne(ctx, s.(*postgres.Store), careful, slice)
	}
}

func many(careful bool) func(context.Context, store.Store, plane.Slice) (plane.Row, error) {
	return func(ctx context.Context, s store.Store, slice plane.Slice) (plane.Row, error) {
		answers, err := postgres.AppendMany(ctx, s.(*postgres.Store), careful, []plane.Slice{slice})
		if err != nil {
			return plane.Row{}, err
		}
		return answers[0].Row, answers[0].Err
	}
}

// The second finds the row locked by the first, or changed, when it comes to it.
func TestOfAppendsThatOverlapTheSecondComparesWithWhatTheFirstLeft(t *testing.T) {
	t.Parallel()
	for way, appendTo := range appends {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			db := pgtest.Pool(t, url)
			claim(t, open(t, url), "s")
			s, other, release := pauseBothAtRows(t, db)
			rows, errs := make([]plane.Row, 2), make([]error, 2)
			var both sync.WaitGroup
			for n, from := range []store.Store{s, other} {
				text := []string{"AAAA", "bbbbbb"}[n]
				both.Go(func() {
					rows[n], errs[n] = appendTo(t.Context(), from, plane.Slice{ID: "s", Token: token, Seq: int64(len(text)), Text: text})
				})
			}
			release(2)
			both.Wait()
			page, err := s.Text(t.Context(), "s", 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			answered := 0
			for n, err := range errs {
				switch {
				case err == nil && rows[n] == page.Row && int64(len(page.Text)) == page.Seq:
					answered++
				case !errors.Is(err, store.ErrBusy):
					t.Errorf("told %+v, %v; the row is %+v, the text %q", rows[n], err, page.Row, page.Text)
				}
			}
			if answered == 0 {
				t.Errorf("neither landed: %v", errs)
			}
		})
	}
}

// overtaken is a call that has its snapshot when sql changes the row.
func overtaken(t *testing.T, call func(context.Context, store.Store) (plane.Row, error), sql string) (*pgxpool.Pool, plane.Row, error) {
	t.Helper()
	url := pgtest.URL(t)
	db := pgtest.Pool(t, url)
	claim(t, open(t, url), "s")
	s, release := pauseAtRows(t, db)
	var row plane.Row
	var err error
	var done sync.WaitGroup
	done.Go(func() { row, err = call(t.Context(), s) })
	pgtest.Waiting(t, db, 1)
	if _, err := db.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
	release(1)
	done.Wait()
	return db, row, err
}

var abc = plane.Slice{ID: "s", Token: token, Seq: 3, Text: "abc"}

func sealABC(ctx context.Context, s store.Store) (plane.Row, error) {
	return s.Seal(ctx, plane.Seal{ID: "s", Token: token, Status: plane.StatusComplete, Seq: 3, Text: "abc"})
}

func TestACallThatWasOvertakenIsToldTheRowAsItIsThen(t *testing.T) {
	t.Parallel()
	calls := map[string]func(context.Context, store.Store) (plane.Row, error){
		"cancel": func(ctx context.Context, s store.Store) (plane.Row, error) { return s.Cancel(ctx, "s") },
		"seal":   sealABC,
	}
	for way, appendTo := range appends {
		calls["append "+way] = func(ctx context.Context, s store.Store) (plane.Row, error) { return appendTo(ctx, s, abc) }
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, row, err := overtaken(t, call, "UPDATE rillkeep.streams SET status = 'interrupted'")
			if want := (plane.Row{Status: plane.StatusInterrupted, Token: token, Epoch: 1}); err != nil || row != want {
				t.Errorf("got %+v, %v", row, err)
			}
		})
	}
}

func TestAnAppendThatACancelOvertookLandsAndIsToldOfIt(t *testing.T) {
	t.Parallel()
	for way, appendTo := range appends {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			call := func(ctx context.Context, s store.Store) (plane.Row, error) { return appendTo(ctx, s, abc) }
			db, row, err := overtaken(t, call, "UPDATE rillkeep.streams SET cancel = true")
			want := plane.Row{Seq: 3, Status: plane.StatusStreaming, Cancel: true, Token: token, Epoch: 1}
			if err != nil || row != want {
				t.Errorf("got %+v, %v", row, err)
			}
			var landed bool
			err = db.QueryRow(t.Context(), "SELECT s.seq = 3 AND s.cancel AND c.text = 'abc' FROM rillkeep.streams s, rillkeep.chunks c").Scan(&landed)
			if err != nil || !landed {
				t.Errorf("landed: %v (%v)", landed, err)
			}
		})
	}
}

func TestASealSeesTheChunkOfAnAppendThatOvertookIt(t *testing.T) {
	t.Parallel()
	db, row, err := overtaken(t, sealABC, "UPDATE rillkeep.streams SET seq = 3; INSERT INTO rillkeep.chunks VALUES ('s', 3, 'abc')")
	if err != nil || row.Status != plane.StatusComplete {
		t.Fatalf("got %+v, %v", row, err)
	}
	var left int
	if err := db.QueryRow(t.Context(), "SELECT count(*) FROM rillkeep.chunks").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d chunk rows are left (%v)", left, err)
	}
}

func TestAnOpenThatWasOvertakenLostTheRace(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"of a row that is there": "UPDATE rillkeep.streams SET status = 'streaming', host = 'n2/boot1/1', epoch = 1 WHERE id = 'there'",
		"of a new one":           "INSERT INTO rillkeep.streams (id, status, host, epoch) VALUES ('new', 'streaming', 'n2/boot1/1', 1)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			s, db := open(t, url), pgtest.Pool(t, url)
			if _, err := db.Exec(t.Context(), "INSERT INTO rillkeep.streams (id) VALUES ('there')"); err != nil {
				t.Fatal(err)
			}
			release := pause(t, db, "INSERT ON rillkeep.streams FOR EACH STATEMENT")
			id := "new"
			if strings.Contains(sql, "'there'") {
				id = "there"
			}
			var err error
			var lost sync.WaitGroup
			lost.Go(func() { _, err = s.Open(t.Context(), plane.Claim{ID: id, Node: "n1/boot1"}) })
			pgtest.Waiting(t, db, 1)
			if _, err := db.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
			release(1)
			lost.Wait()
			if !errors.Is(err, plane.ErrLostRace) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestACallEndsWithItsContextAndLetsGoOfTheRow(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url), pgtest.Pool(t, url)
	claim(t, s, "s")
	release := pause(t, db, "INSERT ON rillkeep.chunks FOR EACH ROW")
	ctx, cancel := context.WithCancel(t.Context())
	var err error
	var call sync.WaitGroup
	call.Go(func() { _, err = s.Append(ctx, plane.Slice{ID: "s", Token: token, Seq: 3, Text: "abc"}) })
	pgtest.Waiting(t, db, 1)
	cancel()
	call.Wait()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	release(0) // the server's side has ended too
	row, err := s.Read(t.Context(), "s")
	if err != nil || row.Seq != 0 {
		t.Errorf("got %+v, %v", row, err)
	}
}

// One connection must serve on after every kind of failure.
func TestAFailedStatementSpoilsNoConnection(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := open(t, url+"&pool_max_conns=1")
	row := claim(t, s, "s")
	for name, fail := range map[string]func(context.Context) error{
		"a text that the database refuses": func(ctx context.Context) error {
			_, err := s.Append(ctx, plane.Slice{ID: "s", Token: token, From: row.Seq, Seq: row.Seq + 1, Text: "\x00"})
			return err
		},
		"a seal that the database refuses": func(ctx context.Context) error {
			_, err := s.Seal(ctx, plane.Seal{ID: "s", Token: token, Status: plane.StatusComplete, Seq: 1, Text: "\x00"})
			return err
		},
		"a chunk that is there": func(ctx context.Context) error {
			if _, err := pgtest.Pool(t, url).Exec(ctx, "INSERT INTO rillkeep.chunks VALUES ('s', $1, 'x')", row.Seq+1); err != nil {
				return nil
			}
			_, err := s.Append(ctx, plane.Slice{ID: "s", Token: token, From: row.Seq, Seq: row.Seq + 1, Text: "y"})
			_, _ = pgtest.Pool(t, url).Exec(ctx, "DELETE FROM rillkeep.chunks WHERE text = 'x'")
			return err
		},
		"a context that has ended": func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			_, err := s.Read(ctx, "s")
			return err
		},
	} {
		if err := fail(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
		for range 20 {
			next, err := s.Append(t.Context(), plane.Slice{ID: "s", Token: token, From: row.Seq, Seq: row.Seq + 1, Text: "z"})
			if err != nil || next.Seq != row.Seq+1 {
				t.Fatalf("after %s: %+v, %v", name, next, err)
			}
			row = next
		}
	}
}
