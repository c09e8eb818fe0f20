package mapped_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/feed/feedtest"
)

func TestMessagesReachAllNodesOfATableAndNobodyElse(t *testing.T) {
	each(t, func(t *testing.T, s *opened) {
		long := strings.Repeat("m", 60)
		other := s.door.app.tables
		other.Message, other.Chunks = long, long+"_c"
		s.door.exec("CREATE TABLE " + other.Message + " (LIKE {messages} INCLUDING ALL)")
		s.door.exec("CREATE TABLE " + other.Chunks + " (LIKE {chunks} INCLUDING ALL)")
		elsewhere := open(t, s.door.url, other)
		here := []feedtest.Ear{feedtest.Listens(t, s.Store), feedtest.Listens(t, open(t, s.door.url, s.door.app.tables))}
		there := feedtest.Listens(t, elsewhere)
		if err := s.Notify(t.Context(), []string{"one", "two"}); err != nil {
			t.Fatal(err)
		}
		if err := elsewhere.Notify(t.Context(), []string{"three"}); err != nil {
			t.Fatal(err)
		}
		for _, e := range here {
			if one, two := e.Next(t), e.Next(t); one+two != "onetwo" {
				t.Errorf("heard %s, %s", one, two)
			}
		}
		if three := there.Next(t); three != "three" {
			t.Errorf("heard %s", three)
		}
		if _, err := s.door.db.Exec(t.Context(), "SELECT pg_notify('rillkeep.public.message', 'by hand')"); err != nil {
			t.Fatal(err)
		}
		if told := here[0].Next(t); told != "by hand" {
			t.Errorf("heard %s", told)
		}
	})
}

func TestCancelledMessagesOfANode(t *testing.T) {
	s, door := odd.open(t)
	for id, node := range map[string]string{"b": "n1", "a": "n1", "not": "n1", "ended": "n1", "similar": "n11"} {
		row := door.write(t, s, node, id)
		if id == "ended" {
			if _, err := s.Seal(t.Context(), plane.Seal{ID: id, Token: row.Token, Status: plane.StatusComplete}); err != nil {
				t.Fatal(err)
			}
		}
	}
	door.exec("UPDATE {messages} SET {cancel} = {id} <> 'not'")
	for node, want := range map[string]string{"n1/boot1": "a b", "n11/boot1": "similar", "n1/boot": "", "n2/boot1": ""} {
		if ids, err := s.Cancelled(t.Context(), node); err != nil || strings.Join(ids, " ") != want {
			t.Errorf("%s: %q, %v", node, ids, err)
		}
	}
}

func TestWithoutAHostColumnThereAreNoLeases(t *testing.T) {
	s, door := bare.open(t)
	node := store.Node{Name: "n1", Incarnation: "boot1"}
	_, renewed := s.Renew(t.Context(), node, time.Hour)
	_, nodes := s.Nodes(t.Context())
	_, swept := s.Sweep(t.Context(), node, grace)
	_, cancelled := s.Cancelled(t.Context(), "n1/boot1")
	_, deleted := s.DeleteEnded(t.Context(), grace)
	for call, err := range map[string]error{
		"renew": renewed, "release": s.Release(t.Context(), node), "nodes": nodes, "sweep": swept,
		"cancelled": cancelled, "delete": deleted,
	} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", call, err)
		}
	}
	var there bool
	if err := door.db.QueryRow(t.Context(), "SELECT to_regnamespace('rillkeep') IS NOT NULL").Scan(&there); err != nil || there {
		t.Errorf("a schema was made: %t, %v", there, err)
	}
	flagged := bare
	flagged.tables.Cancel = "stop"
	flagged.ddl = `CREATE TABLE message (id text PRIMARY KEY, body text, status text, seq integer NOT NULL, stop boolean)`
	s, door = flagged.open(t)
	door.write(t, s, "n1", "s")
	door.write(t, s, "n2", "t")
	door.exec("UPDATE {messages} SET stop = true WHERE {id} = 's'")
	if ids, err := s.Cancelled(t.Context(), "n1/boot1"); err != nil || len(ids) != 1 || ids[0] != "s" {
		t.Errorf("%q, %v", ids, err)
	}
}
