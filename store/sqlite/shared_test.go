package sqlite_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/sqlite"
	"rillkeep.dev/rillkeep/store/storetest"
)

func TestStoresOfOneFile(t *testing.T) {
	t.Parallel()
	storetest.RunShared(t, func(tb testing.TB) storetest.Database { return newShared(tb) })
}

// shared is one file, for stores as of several nodes.
type shared struct {
	backdoor
	path string
}

func newShared(tb testing.TB) *shared {
	path := filepath.Join(tb.TempDir(), "s.db")
	s := open(tb, path, sqlite.Config{NoSync: true})
	return &shared{backdoor: backdoor{Store: s, tb: tb, db: raw(tb, path)}, path: path}
}

func (s *shared) Open(tb testing.TB) storetest.SharedStore {
	return open(tb, s.path, sqlite.Config{NoSync: true})
}

func (s *shared) Leases() (all []storetest.Lease) {
	s.tb.Helper()
	found, err := s.db.Query("SELECT name, incarnation, heartbeat_at, expires_at, since FROM nodes ORDER BY name, incarnation")
	if err != nil {
		s.tb.Fatal(err)
	}
	defer found.Close()
	for found.Next() {
		var l storetest.Lease
		var heartbeat, expires, since int64
		if err := found.Scan(&l.Name, &l.Incarnation, &heartbeat, &expires, &since); err != nil {
			s.tb.Fatal(err)
		}
		l.Heartbeat, l.Expires, l.Since = time.UnixMicro(heartbeat), time.UnixMicro(expires), time.UnixMicro(since)
		all = append(all, l)
	}
	if err := found.Err(); err != nil {
		s.tb.Fatal(err)
	}
	return all
}

func (s *shared) EditLease(node store.Node, edit func(*storetest.Lease)) {
	s.tb.Helper()
	lease := storetest.Lease{Name: node.Name, Incarnation: node.Incarnation}
	for _, l := range s.Leases() {
		if l.Name == node.Name && l.Incarnation == node.Incarnation {
			lease = l
		}
	}
	edit(&lease)
	s.exec(`
		INSERT INTO nodes (name, incarnation, heartbeat_at, expires_at, since) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET heartbeat_at = excluded.heartbeat_at, expires_at = excluded.expires_at, since = excluded.since`,
		lease.Name, lease.Incarnation, micros(lease.Heartbeat), micros(lease.Expires), micros(lease.Since))
}

func (s *shared) StepClock(by time.Duration) {
	s.tb.Helper()
	s.exec("UPDATE nodes SET expires_at = expires_at - ?1, heartbeat_at = heartbeat_at - ?1, since = since - ?1", by.Microseconds())
}

// EndNames takes the files away that are locked.
func (s *shared) EndNames() {
	s.tb.Helper()
	files, err := filepath.Glob(s.path + ".name-*")
	if err != nil || len(files) == 0 {
		s.tb.Fatalf("%q, %v", files, err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			s.tb.Fatal(err)
		}
	}
}

func (s *shared) Cancel(id string) {
	s.tb.Helper()
	s.exec("UPDATE streams SET cancel = 1 WHERE id = ?", id)
}

// refuse makes the file refuse a change of some rows, until it is told otherwise.
func (s *shared) refuse(change string) (allow func()) {
	s.exec("CREATE TRIGGER refuse BEFORE " + change + " ON streams WHEN OLD.id IN ('s03', 's21') BEGIN SELECT RAISE(ABORT, 'not this one'); END")
	return func() { s.exec("DROP TRIGGER refuse") }
}

func TestAnOrphanThatCannotBeSealedCostsItselfAlone(t *testing.T) {
	t.Parallel()
	db := newShared(t)
	s := db.Open(t)
	db.exec(`
		WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 39)
		INSERT INTO streams (id, status, host, epoch, created_at, updated_at) SELECT printf('s%02d', n), 'streaming', 'n1/boot1/1', 1, 1, 1 FROM n`)
	node := store.Node{Name: "n2", Incarnation: "boot1"}
	db.EditLease(node, func(l *storetest.Lease) { l.Since, l.Expires = time.UnixMicro(1), time.Now().Add(time.Hour) })
	allow := db.refuse("UPDATE")
	if n, err := s.Sweep(t.Context(), node, time.Second); n != 38 || err == nil || !strings.Contains(err.Error(), `"s03"`) || !strings.Contains(err.Error(), `"s21"`) {
		t.Errorf("swept %d, %v", n, err)
	}
	allow()
	if n, err := s.Sweep(t.Context(), node, time.Second); n != 2 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
}

func TestAStreamThatCannotBeDeletedCostsNoOther(t *testing.T) {
	t.Parallel()
	db := newShared(t)
	s := db.Open(t)
	db.exec(`
		WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 149)
		INSERT INTO streams (id, status, created_at, updated_at, ended_at) SELECT printf('s%02d', n), 'complete', 1, 1, 1 FROM n`)
	allow := db.refuse("DELETE")
	for _, want := range []int{148, 0} {
		n, err := s.DeleteEnded(t.Context(), time.Hour)
		if n != want || err == nil || !strings.Contains(err.Error(), `"s03"`) || !strings.Contains(err.Error(), `"s21"`) {
			t.Errorf("deleted %d, %v, want %d", n, err, want)
		}
	}
	allow()
	if n, err := s.DeleteEnded(t.Context(), time.Hour); n != 2 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
}

// A node that is alone pays for no feed.
func TestNewsAreWrittenWhereThereAreOthersAndForgotten(t *testing.T) {
	db := newShared(t)
	s := db.Open(t)
	kept := func() (n int) {
		t.Helper()
		if err := db.db.QueryRow("SELECT count(*) FROM news").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	say := func() {
		t.Helper()
		if err := s.Notify(t.Context(), []string{"news"}); err != nil {
			t.Fatal(err)
		}
	}
	lives := func(l *storetest.Lease) { l.Expires = time.Now().Add(time.Hour) }
	db.EditLease(store.Node{Name: "n1", Incarnation: "boot1"}, lives)
	say()
	if n := kept(); n != 0 {
		t.Errorf("a node that is alone wrote %d messages", n)
	}
	db.EditLease(store.Node{Name: "n2", Incarnation: "boot1"}, lives)
	say()
	say()
	if n := kept(); n != 2 {
		t.Errorf("%d messages", n)
	}
	db.exec("UPDATE news SET at = at - 3600000000")
	say()
	if n := kept(); n != 1 {
		t.Errorf("%d messages are kept", n)
	}
}

func TestAWriteThatFindsTheFileLockedIsBusy(t *testing.T) {
	t.Parallel()
	db := newShared(t)
	s := db.Open(t)
	tx, err := db.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), plane.Claim{ID: "s", Node: "n1/boot1"}); err == nil || !strings.Contains(err.Error(), store.ErrBusy.Error()) {
		t.Errorf("got %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), plane.Claim{ID: "s", Node: "n1/boot1"}); err != nil {
		t.Error(err)
	}
}
