package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

func renew(t *testing.T, s store.Shared, node store.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := s.Renew(ctx, node, time.Hour); err != nil {
		t.Fatal(err)
	}
}

func exec(t testing.TB, db *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func wantNodes(t *testing.T, s store.Shared, want ...store.Node) {
	t.Helper()
	got, err := s.Nodes(t.Context())
	if diff := cmp.Diff(want, got); err != nil || diff != "" && len(want)+len(got) > 0 {
		t.Errorf("%v, nodes (-want +got):\n%s", err, diff)
	}
}

func TestCheckpointsThatHaveAllConnectionsLeaveTheLeaseItsOwn(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url+"&pool_max_conns=1"), pgtest.Pool(t, url)
	claim(t, s, "s")
	node := store.Node{Name: "n1", Incarnation: "boot1"}
	for range 2 { // the first one connects
		release := pause(t, db, "INSERT ON rillkeep.chunks FOR EACH ROW")
		var call sync.WaitGroup
		call.Go(func() {
			_, _ = s.Append(t.Context(), plane.Slice{ID: "s", Token: token, Seq: 3, Text: "abc"})
		})
		pgtest.Waiting(t, db, 1)
		renew(t, s, node)
		release(1)
		call.Wait()
		exec(t, db, "DROP FUNCTION pause CASCADE; UPDATE rillkeep.streams SET seq = 0; DELETE FROM rillkeep.chunks")
	}
	wantNodes(t, s, node)
}

func TestALeaseIsRenewedOnANewConnectionWhenTheOldOneIsLost(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url), pgtest.Pool(t, url)
	node := store.Node{Name: "n1", Incarnation: "boot1"}
	for range 3 {
		renew(t, s, node)
		var ended bool
		err := db.QueryRow(t.Context(), `
			SELECT bool_and(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity
			WHERE datname = current_database() AND query LIKE '%INSERT INTO%nodes%' AND pid <> pg_backend_pid()`).Scan(&ended)
		if err != nil || !ended {
			t.Fatalf("%v, %v", ended, err)
		}
	}
	renew(t, s, node)
}

// As after a failover: the server that was the primary is read-only, and a new
// connection leads to one that is not.
func TestALeaseIsRenewedOnANewConnectionWhenTheServerTakesNoWrites(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url), pgtest.Pool(t, url)
	node := store.Node{Name: "n1", Incarnation: "boot1"}
	var name string
	if err := db.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "ALTER DATABASE "+name+" SET default_transaction_read_only = on")
	if _, err := s.Renew(t.Context(), node, time.Hour); err == nil {
		t.Error("a read-only server took it")
	}
	exec(t, db, "ALTER DATABASE "+name+" RESET default_transaction_read_only")
	renew(t, s, node)
	wantNodes(t, s, node)
}
