package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/feed"
	"rillkeep.dev/rillkeep/store/feed/feedtest"
	"rillkeep.dev/rillkeep/store/postgres"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// cut ends the connections of all who listen.
func cut(t *testing.T, db *pgxpool.Pool) {
	t.Helper()
	var ended bool
	err := db.QueryRow(t.Context(), `
		SELECT bool_and(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'rillkeep listener'`).Scan(&ended)
	if err != nil || !ended {
		t.Fatalf("%t, %v", ended, err)
	}
}

func TestMessagesReachAllNodesOfASchema(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	first, second := open(t, url), open(t, url+"&pool_max_conns=1")
	other, err := postgres.Open(t.Context(), url, postgres.Config{Schema: `Ot"her.`})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pgtest.Close(t, other) })
	ears := []feedtest.Ear{feedtest.Listens(t, first), feedtest.Listens(t, second)}
	elsewhere := feedtest.Listens(t, other)
	want := []string{"one", "two", strings.Repeat("x", feed.MaxMessage), strings.Repeat("漢", feed.MaxMessage/3)}
	if err := first.Notify(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	for _, e := range ears {
		for _, message := range want {
			if told := e.Next(t); told != message {
				t.Errorf("heard %.20s… of %d bytes", told, len(told))
			}
		}
	}
	if err := first.Notify(t.Context(), []string{"fits", strings.Repeat("x", feed.MaxMessage+1)}); err == nil {
		t.Error("a message of 8,000 bytes was sent")
	}
	for _, e := range ears {
		e.Silent(t, first) // all or none
	}
	elsewhere.Silent(t, other)
}

func TestAListenerThatWasCutComesBack(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url), pgtest.Pool(t, url)
	e := feedtest.Listens(t, s)
	for range 3 {
		cut(t, db)
		for _, want := range []string{"lost", "connected"} {
			if told := e.Next(t); told != want {
				t.Fatalf("%s, not %s", told, want)
			}
		}
		e.Silent(t, s)
	}
}

func TestAListenerThatHearsNothingIsAskedAndKept(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url), pgtest.Pool(t, url)
	e := feedtest.Listens(t, s)
	for asked := false; !asked; {
		err := db.QueryRow(t.Context(), `
			SELECT query NOT LIKE 'LISTEN%' FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'rillkeep listener'`).Scan(&asked)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(100 * time.Millisecond)
	}
	e.Silent(t, s)
}

func TestAListenerHasAURLOfItsOwn(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, err := postgres.Open(t.Context(), url, postgres.Config{DirectURL: url + "&application_name=ear&pool_max_conns=3"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pgtest.Close(t, s) })
	feedtest.Listens(t, s).Silent(t, s)
	var ears int
	if err := pgtest.Pool(t, url).QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ear'").Scan(&ears); err != nil || ears != 1 {
		t.Errorf("%d connections by it (%v)", ears, err)
	}
	_, err = postgres.Open(t.Context(), url, postgres.Config{DirectURL: "postgres://user:secret@host:port/"})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a broken one: %v", err)
	}
	_, err = postgres.Open(t.Context(), url, postgres.Config{Schema: strings.Repeat("s", 64)})
	if !errors.Is(err, plane.ErrConfig) {
		t.Errorf("a name that is too long for a channel: %v", err)
	}
}

func TestACancelThatCannotBeAnnouncedIsDoneAllTheSame(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url), pgtest.Pool(t, url)
	long := strings.Repeat("\x01", 1400) // as no client's id
	if _, err := db.Exec(t.Context(), "INSERT INTO rillkeep.streams (id, status, host) VALUES ($1, 'streaming', 'n1/boot1/1')", long); err != nil {
		t.Fatal(err)
	}
	e := feedtest.Listens(t, s)
	if _, err := db.Exec(t.Context(), "UPDATE rillkeep.streams SET cancel = true"); err != nil {
		t.Error(err)
	}
	e.Silent(t, s)
	if ids, err := s.Cancelled(t.Context(), "n1/boot1"); err != nil || len(ids) != 1 || ids[0] != long {
		t.Errorf("%q, %v", ids, err)
	}
}

func TestCancelledStreamsOfANode(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url), pgtest.Pool(t, url)
	for _, sql := range []string{
		`INSERT INTO rillkeep.streams (id, status, host, cancel)
			SELECT 's' || lpad(n::text, 5, '0'), 'streaming', 'n1/boot1/' || n, n % 2 = 0 FROM generate_series(1, 4200) n`,
		`INSERT INTO rillkeep.streams (id, status, host, cancel) VALUES
			('other boot', 'streaming', 'n1/boot12/1', true), ('other node', 'streaming', 'n11/boot1/1', true),
			('ended', 'interrupted', 'n1/boot1/1', true), ('pending', 'pending', NULL, true), ('nobody''s', 'streaming', NULL, true)`,
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	ids, err := s.Cancelled(t.Context(), "n1/boot1")
	if err != nil || len(ids) != 2100 || ids[0] != "s00002" || ids[2099] != "s04200" {
		t.Errorf("%d ids, %v", len(ids), err)
	}
	if ids, err := s.Cancelled(t.Context(), "n2/boot1"); err != nil || len(ids) != 0 {
		t.Errorf("%q, %v", ids, err)
	}
}

// A session that listens and never reads its notifications keeps the server from
// forgetting them; and payloads have a limit, which no text may meet.
func TestASessionThatListensAndSleepsBreaksNoCommit(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := open(t, url)
	stuck, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stuck.Close(context.Background()) })
	for _, sql := range []string{"LISTEN rillkeep", "BEGIN", "SELECT txid_current()"} {
		if _, err := stuck.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	e := feedtest.Listens(t, s)
	row := claim(t, s, "s")
	for range 2000 {
		if err := s.Notify(t.Context(), []string{strings.Repeat("x", feed.MaxMessage)}); err != nil {
			t.Fatal(err)
		}
		e.Next(t)
	}
	var used float64
	if err := pgtest.Pool(t, url).QueryRow(t.Context(), "SELECT pg_notification_queue_usage()").Scan(&used); err != nil || used == 0 {
		t.Errorf("the queue is used by %v (%v)", used, err)
	}
	text := strings.Repeat("漢", 8000)
	if row, err = s.Append(t.Context(), plane.Slice{ID: "s", Token: row.Token, Seq: 8000, Text: text}); err != nil || row.Seq != 8000 {
		t.Errorf("%+v, %v", row, err)
	}
	if _, err := s.Cancel(t.Context(), "s"); err != nil {
		t.Error(err)
	}
	if said, err := feed.Parse(e.Next(t)); err != nil || !said.Changes[0].Cancel {
		t.Errorf("%+v, %v", said, err)
	}
}
