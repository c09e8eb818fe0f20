package mapped_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/group"
	"rillkeep.dev/rillkeep/store/postgres/mapped"
)

// each runs a test on tables with a column for everything, and on those without.
func each(t *testing.T, test func(t *testing.T, s *opened)) {
	for name, app := range map[string]application{"with a host column": full, "without": bare} {
		t.Run(name, func(t *testing.T) {
			s, door := app.open(t)
			test(t, &opened{s, door})
		})
	}
}

// begin starts a transaction on a connection of its own.
func begin(t testing.TB, db *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// With guard and insert as two statements both pass the guard, and both chunk
// rows stay.
func TestOfTwoAppendsInterleavedByHandOneLands(t *testing.T) {
	each(t, func(t *testing.T, s *opened) {
		s.message("s")
		row := claim(t, s, "s")
		first, second := begin(t, s.door.db), begin(t, s.door.db)
		appendIn := func(tx pgx.Tx, text string) (seq int64, err error) {
			err = tx.QueryRow(t.Context(), s.AppendSQL(), "s", row.Token, 0, len(text), text).Scan(&seq, nil, nil, nil, nil, nil)
			return seq, err
		}
		if seq, err := appendIn(first, "AAAA"); err != nil || seq != 4 {
			t.Fatalf("the first: %d, %v", seq, err)
		}
		answered := make(chan error, 1)
		go func() {
			seq, err := appendIn(second, "bbbbbb")
			if err == nil && seq != 4 {
				err = fmt.Errorf("the second was told %d", seq)
			}
			answered <- err
		}()
		select { // refused, or else it waits for the first
		case err := <-answered:
			answered <- err
		case <-time.After(time.Second):
		}
		if err := first.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-answered; err == nil {
			err = second.Commit(t.Context())
			if err != nil {
				t.Fatal(err)
			}
		} else if !locked(err) {
			t.Errorf("the second: %v", err)
		}
		if seq, err := appendIn(begin(t, s.door.db), "bbbbbb"); err != nil || seq != 4 {
			t.Errorf("the second again: %d, %v", seq, err)
		}
		s.has(t, "s", 4, "AAAA")
	})
}

// Both have their snapshot before either has the row.
func TestOfTwoAppendsWithTheSameSnapshotOneLands(t *testing.T) {
	each(t, func(t *testing.T, s *opened) {
		s.message("s")
		row := claim(t, s, "s")
		paused, release := s.paused(t)
		answers, errs := make([]plane.Row, 2), make([]error, 2)
		var both sync.WaitGroup
		for n, text := range []string{"AAAA", "bbbbbb"} {
			both.Go(func() {
				answers[n], errs[n] = mapped.AppendOne(t.Context(), paused, plane.Slice{ID: "s", Token: row.Token, Seq: int64(len(text)), Text: text})
			})
		}
		release(2)
		both.Wait()
		stored, _ := s.door.Row("s")
		for n, err := range errs {
			if err == nil && answers[n].Seq != stored.Seq || err != nil && !locked(err) {
				t.Errorf("told %+v, %v, the row is at %d", answers[n], err, stored.Seq)
			}
		}
		if len(stored.Chunks) != 1 || stored.Chunks[0].Seq != stored.Seq {
			t.Errorf("the row is %+v", stored)
		}
	})
}

func locked(err error) bool {
	said, ok := errors.AsType[*pgconn.PgError](err)
	return ok && said.Code == "55P03"
}

func TestAppendsOverArraysThatWereOvertakenCompareWithWhatIsThereThen(t *testing.T) {
	each(t, func(t *testing.T, s *opened) {
		ids := []string{"a", "b", "c"}
		rows := make(map[string]plane.Row)
		var slices []plane.Slice
		for _, id := range ids {
			s.message(id)
			rows[id] = claim(t, s, id)
			slices = append(slices, plane.Slice{ID: id, Token: rows[id].Token, Seq: 6, Text: "bbbbbb"})
		}
		paused, release := s.paused(t)
		var got []group.Answer
		var err error
		var batch sync.WaitGroup
		batch.Go(func() { got, err = mapped.AppendMany(t.Context(), paused, slices) })
		s.waiting(t, 1)
		appended(t, s, "b", rows["b"], "AAAA")
		release(1)
		batch.Wait()
		if err != nil || got[0].Row.Seq != 6 || got[1].Row.Seq != 4 || got[2].Row.Seq != 6 {
			t.Errorf("got %+v, %v", got, err)
		}
		s.has(t, "a", 6, "bbbbbb")
		s.has(t, "b", 4, "AAAA")
		s.has(t, "c", 6, "bbbbbb")
	})
}

func TestAnOpenThatWasOvertakenLostTheRace(t *testing.T) {
	each(t, func(t *testing.T, s *opened) {
		s.message("s")
		paused, release := s.paused(t)
		var err error
		var lost sync.WaitGroup
		lost.Go(func() { _, err = paused.Open(t.Context(), plane.Claim{ID: "s", Node: "n2/boot1"}) })
		s.waiting(t, 1)
		row := claim(t, s, "s")
		release(1)
		lost.Wait()
		if !errors.Is(err, plane.ErrLostRace) {
			t.Errorf("got %v", err)
		}
		if now, err := s.Read(t.Context(), "s"); err != nil || now != row {
			t.Errorf("the winner's row is %+v, %v", now, err)
		}
	})
}

func TestASealSeesTheChunkOfAnAppendThatOvertookIt(t *testing.T) {
	each(t, func(t *testing.T, s *opened) {
		s.message("s")
		row := claim(t, s, "s")
		paused, release := s.paused(t)
		var end plane.Row
		var err error
		var seal sync.WaitGroup
		seal.Go(func() {
			end, err = paused.Seal(t.Context(), plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, Seq: 3, Text: "abc"})
		})
		s.waiting(t, 1)
		appended(t, s, "s", row, "abc")
		release(1)
		seal.Wait()
		stored, _ := s.door.Row("s")
		if err != nil || end.Status != plane.StatusComplete || stored.Body != "abc" || len(stored.Chunks) != 0 {
			t.Errorf("got %+v, %v; the row is %+v", end, err, stored)
		}
	})
}

func TestAMessageThatItsApplicationLocksIsBusy(t *testing.T) {
	each(t, func(t *testing.T, s *opened) {
		s.message("s")
		s.message("free")
		row, free := claim(t, s, "s"), claim(t, s, "free")
		tx := begin(t, s.door.db)
		if _, err := tx.Exec(t.Context(), s.door.sql("SELECT FROM {messages} WHERE {id} = 's' FOR UPDATE")); err != nil {
			t.Fatal(err)
		}
		_, err := s.Append(t.Context(), plane.Slice{ID: "s", Token: row.Token, Seq: 1, Text: "a"})
		if !errors.Is(err, store.ErrBusy) {
			t.Errorf("append: %v", err)
		}
		seal := plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, Seq: 1, Text: "a"}
		if _, err := s.Seal(t.Context(), seal); !errors.Is(err, store.ErrBusy) {
			t.Errorf("seal: %v", err)
		}
		appended(t, s, "free", free, "abc")
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if end, err := s.Seal(t.Context(), seal); err != nil || end.Status != plane.StatusComplete {
			t.Errorf("once it is free: %+v, %v", end, err)
		}
	})
}

// opened is a store and the way past it.
type opened struct {
	*mapped.Store
	door *backdoor
}

// message makes a row as an application does.
func (s *opened) message(id string) {
	s.door.tb.Helper()
	s.door.exec("INSERT INTO {messages} ({id}, {seq}) VALUES ($1, 0)", id)
}

// has fails the test unless a row has the length, and one chunk, of the text.
func (s *opened) has(t *testing.T, id string, seq int64, text string) {
	t.Helper()
	row, _ := s.door.Row(id)
	if row.Seq != seq || len(row.Chunks) != 1 || row.Chunks[0] != (plane.Chunk{Seq: seq, Text: text}) {
		t.Errorf("the row is %+v", row)
	}
}

// paused answers a store whose statements wait where they come to a message,
// with their snapshot and no lock on it yet, until release, which lets them go
// on when n of them wait.
func (s *opened) paused(t *testing.T) (p *mapped.Store, release func(n int)) {
	t.Helper()
	as, worker := role(t, s.door.db)
	s.door.exec("GRANT SELECT, UPDATE ON {messages} TO " + worker + "; GRANT SELECT, INSERT, DELETE ON {chunks} TO " + worker)
	leases(t, s.door.db, worker)
	p = open(t, as, s.door.app.tables)
	t.Cleanup(func() { shut(t, p) }) // before its role is dropped
	s.door.exec(`
		CREATE FUNCTION pause() RETURNS boolean LANGUAGE plpgsql SET lock_timeout = 0 AS $$
		BEGIN
			PERFORM pg_advisory_xact_lock_shared(1);
			RETURN true;
		END $$;
		ALTER TABLE {messages} ENABLE ROW LEVEL SECURITY;
		CREATE POLICY pause ON {messages} USING (pause())`)
	conn, err := s.door.db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Conn().Close(context.Background()) // and nothing waits for it any more
		conn.Release()
	})
	lock := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	lock("SELECT pg_advisory_lock(1)")
	return p, func(n int) {
		t.Helper()
		s.waiting(t, n)
		lock("SELECT pg_advisory_unlock(1)")
	}
}

// waiting returns once n sessions wait for a lock.
func (s *opened) waiting(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		var count int
		err := s.door.db.QueryRow(t.Context(), `
			SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&count)
		if err != nil {
			t.Fatal(err)
		}
		if count == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d sessions wait, not %d", count, n)
		}
	}
}
