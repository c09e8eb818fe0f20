package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
	"rillkeep.dev/rillkeep/store/storetest"
)

func TestStoresOfOneDatabase(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := pgtest.Pool(t, url)
	schemas := 0
	storetest.RunShared(t, func(tb testing.TB) storetest.Database {
		schemas++
		s := &shared{backdoor: backdoor{tb: tb, db: db, schema: fmt.Sprint("schema_", schemas)}, url: url}
		pgtest.Close(tb, s.Open(tb)) // makes the tables
		return s
	})
}

// shared is one schema, for stores as of several nodes.
type shared struct {
	backdoor
	url string
}

func (s *shared) Open(tb testing.TB) storetest.SharedStore {
	tb.Helper()
	one, err := postgres.Open(tb.Context(), s.url, postgres.Config{Schema: s.schema})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { pgtest.Close(tb, one) })
	return one
}

func (s *shared) Leases() []storetest.Lease {
	s.tb.Helper()
	found, err := s.db.Query(s.tb.Context(), s.sql(`
		SELECT name, incarnation, heartbeat_at, expires_at, since FROM rillkeep.nodes ORDER BY name, incarnation`))
	if err != nil {
		s.tb.Fatal(err)
	}
	all, err := pgx.CollectRows(found, pgx.RowToStructByPos[storetest.Lease])
	if err != nil {
		s.tb.Fatal(err)
	}
	return all
}

func (s *shared) EditLease(node store.Node, edit func(*storetest.Lease)) {
	s.tb.Helper()
	now := time.Now()
	lease := storetest.Lease{Name: node.Name, Incarnation: node.Incarnation, Heartbeat: now, Expires: now, Since: now}
	for _, l := range s.Leases() {
		if l.Name == node.Name && l.Incarnation == node.Incarnation {
			lease = l
		}
	}
	edit(&lease)
	s.exec(`
		INSERT INTO rillkeep.nodes (name, incarnation, heartbeat_at, expires_at, since) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (name, incarnation) DO UPDATE
		SET heartbeat_at = excluded.heartbeat_at, expires_at = excluded.expires_at, since = excluded.since`,
		lease.Name, lease.Incarnation, lease.Heartbeat, lease.Expires, lease.Since)
}

func (s *shared) StepClock(by time.Duration) {
	s.tb.Helper()
	s.exec("UPDATE rillkeep.nodes SET expires_at = expires_at - $1::interval, heartbeat_at = heartbeat_at - $1::interval, since = since - $1::interval", by)
}

func (s *shared) EndNames() {
	s.tb.Helper()
	endNames(s.tb, s.db)
}

func (s *shared) Cancel(id string) {
	s.tb.Helper()
	s.exec("UPDATE rillkeep.streams SET cancel = true WHERE id = $1", id)
}
