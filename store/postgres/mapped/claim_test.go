package mapped_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres/mapped"
)

const (
	node  = "n1/boot1"
	token = node + "/1"
)

func claim(t *testing.T, s store.Store, id string) plane.Row {
	t.Helper()
	row, err := s.Open(t.Context(), plane.Claim{ID: id, Node: node})
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func appended(t *testing.T, s store.Store, id string, row plane.Row, text string) plane.Row {
	t.Helper()
	to := row.Seq + plane.Units(text)
	next, err := s.Append(t.Context(), plane.Slice{ID: id, Token: row.Token, From: row.Seq, Seq: to, Text: text})
	if err != nil || next.Seq != to {
		t.Fatalf("appended up to %d: %+v, %v", to, next, err)
	}
	return next
}

func TestAnOpenSaysWhyItIsRefused(t *testing.T) {
	each(t, func(t *testing.T, s *opened) {
		s.door.exec("ALTER TABLE {messages} ALTER COLUMN {seq} DROP NOT NULL") // since the start
		s.door.exec("INSERT INTO {messages} ({id}, {seq}, {status}, {body}) VALUES ('null', NULL, NULL, ''), ('advanced', 3, 'complete', 'abc'), ('body', 0, 'pending', 'abc'), ('chunk', 0, NULL, ''), ('held', 0, 'streaming', '')")
		s.door.exec("INSERT INTO {chunks} ({chunk}, {stream}, {end}, {text}) VALUES ('chunk:3', 'chunk', 3, 'abc')")
		for id, want := range map[string]error{
			"none": plane.ErrNotFound, "null": plane.ErrNullLength, "advanced": plane.ErrExists, "body": plane.ErrExists,
			"chunk": plane.ErrExists, "held": plane.ErrHeld,
		} {
			before, _ := s.door.Row("body")
			if _, err := s.Open(t.Context(), plane.Claim{ID: id, Node: node}); !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", id, err, want)
			}
			if after, _ := s.door.Row("body"); after.Status != before.Status {
				t.Errorf("%s: the row is %+v", id, after)
			}
		}
		if row, err := s.Read(t.Context(), "null"); err != nil || row.Seq != 0 || row.Status != plane.StatusPending {
			t.Errorf("a length that is NULL reads as %+v, %v", row, err)
		}
	})
}

func TestAStatusOfTheApplicationsOwnCountsAsPending(t *testing.T) {
	each(t, func(t *testing.T, s *opened) {
		for id, status := range map[string]any{"null": nil, "empty": "", "draft": "draft"} {
			s.door.exec("INSERT INTO {messages} ({id}, {seq}, {status}) VALUES ($1, 0, $2)", id, status)
			if row, err := s.Read(t.Context(), id); err != nil || row.Status != plane.StatusPending {
				t.Errorf("%s reads as %+v, %v", id, row, err)
			}
			if list, err := s.List(t.Context(), store.Query{Status: plane.StatusPending}); err != nil || len(list) != 1 || list[0].ID != id {
				t.Errorf("%s is listed as %+v, %v", id, list, err)
			}
			if row := claim(t, s, id); row.Status != plane.StatusStreaming {
				t.Errorf("%s opens as %+v", id, row)
			}
		}
	})
}

func TestEpochsDoNotRepeatInAHostColumn(t *testing.T) {
	s, app := full.open(t)
	app.exec("INSERT INTO {messages} ({id}, {seq}, {host}) VALUES ('new', 0, NULL), ('foreign', 0, 'pod-7'), ('old', 0, 'n0/boot/41')")
	for id, want := range map[string]int64{"new": 1, "foreign": 1, "old": 42} {
		for range 3 {
			row := claim(t, s, id)
			if row.Epoch != want || row.Token != fmt.Sprintf("%s/%d", node, want) {
				t.Errorf("%s: %+v, want epoch %d", id, row, want)
			}
			if _, err := s.Seal(t.Context(), plane.Seal{ID: id, Token: row.Token, Status: plane.StatusInterrupted}); err != nil {
				t.Fatal(err)
			}
			want++
		}
	}
}

func TestAWriterThatWasSweptReachesNothing(t *testing.T) {
	for name, sql := range map[string]string{
		"ended":            "UPDATE {messages} SET {status} = 'interrupted'",
		"ended and opened": "UPDATE {messages} SET {host} = 'n2/boot1/2', {seq} = 0; DELETE FROM {chunks}",
		"advanced":         "UPDATE {messages} SET {seq} = 7",
	} {
		t.Run(name, func(t *testing.T) {
			s, app := full.open(t)
			app.exec("INSERT INTO {messages} ({id}) VALUES ('s')")
			row := appended(t, s, "s", claim(t, s, "s"), "abc")
			app.exec(sql)
			before, _ := app.Row("s")
			now, err := s.Append(t.Context(), plane.Slice{ID: "s", Token: row.Token, From: 3, Seq: 4, Text: "d"})
			if err != nil || now.Seq != before.Seq || now.Token != before.Token || now.Status != before.Status {
				t.Errorf("append: %+v, %v", now, err)
			}
			if name != "advanced" { // whose seal mends it
				if _, err := s.Seal(t.Context(), plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, From: 3, Seq: 4, Text: "abcd"}); err != nil {
					t.Error(err)
				}
			}
			if after, _ := app.Row("s"); after.Seq != before.Seq || after.Body != before.Body || after.Status != before.Status {
				t.Errorf("the row is %+v, was %+v", after, before)
			}
		})
	}
}

// losing answers a store that loses the answers of so many commits.
func losing(t *testing.T, app application) (s *mapped.Store, door *backdoor, lose func(n int32)) {
	t.Helper()
	_, door = app.open(t)
	var left atomic.Int32
	s = mapped.OpenLosing(t, door.url, app.tables, func(query []byte) bool {
		return bytes.Contains(query, []byte("commit")) && left.Add(-1) >= 0
	})
	t.Cleanup(func() { shut(t, s) })
	return s, door, func(n int32) { left.Store(n) }
}

func TestWithoutAHostColumnAnOpenWhoseAnswerWasLostIsKnownAllTheSame(t *testing.T) {
	s, app, lose := losing(t, bare)
	app.exec("INSERT INTO {messages} ({id}, {seq}) VALUES ('s', 0)")
	lose(1)
	if row, err := s.Open(t.Context(), plane.Claim{ID: "s", Node: node}); err == nil {
		t.Fatalf("the answer was not lost: %+v", row)
	}
	if row, _ := app.Row("s"); row.Status != plane.StatusStreaming {
		t.Fatalf("it was not done: %+v", row)
	}
	if _, err := s.Open(t.Context(), plane.Claim{ID: "s", Node: "n2/boot1"}); !errors.Is(err, plane.ErrHeld) {
		t.Errorf("another: %v", err)
	}
	row := claim(t, s, "s")
	appended(t, s, "s", row, "abc")
	if _, err := s.Open(t.Context(), plane.Claim{ID: "s", Node: node}); !errors.Is(err, plane.ErrHeld) {
		t.Errorf("once more: %v", err)
	}
	if n := s.Doubts(); n != 0 {
		t.Errorf("%d claims are in doubt", n)
	}
}

func TestWithoutAHostColumnAnOpenThatFailedCanBeGivenBack(t *testing.T) {
	for name, between := range map[string]string{
		"": "", "not if another has it since": "UPDATE {messages} SET {status} = 'streaming'", "not if it is gone": "DELETE FROM {messages}",
	} {
		t.Run(name, func(t *testing.T) {
			s, app, lose := losing(t, bare)
			app.exec("INSERT INTO {messages} ({id}, {seq}) VALUES ('s', 0)")
			lose(1)
			asked := plane.Claim{ID: "s", Node: node}
			if _, err := s.Open(t.Context(), asked); err == nil {
				t.Fatal("the answer was not lost")
			}
			want := plane.StatusInterrupted
			if between != "" {
				app.exec(between)
				row, _ := app.Row("s")
				want = row.Status
			}
			if _, err := plane.GiveBack(t.Context(), plane.Config{Store: s}, asked); err != nil {
				t.Error(err)
			}
			if row, _ := app.Row("s"); row.Status != want {
				t.Errorf("the row is %+v, want it %s", row, want)
			}
			if n := s.Doubts(); n != 0 {
				t.Errorf("%d claims are in doubt", n)
			}
		})
	}
}

func TestOfManyOpensAtOnceOneWins(t *testing.T) {
	each(t, func(t *testing.T, s *opened) {
		other := open(t, s.door.url, s.door.app.tables)
		for range 50 {
			s.door.exec("TRUNCATE {messages}")
			s.message("s")
			errs := make([]error, 2)
			var both sync.WaitGroup
			for n, s := range []store.Store{s, other} {
				both.Go(func() { _, errs[n] = s.Open(t.Context(), plane.Claim{ID: "s", Node: []string{"n1/b", "n2/b"}[n]}) })
			}
			both.Wait()
			lost := errors.Join(errs...)
			if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(lost, plane.ErrHeld) && !errors.Is(lost, plane.ErrLostRace) {
				t.Fatalf("got %v", errs)
			}
		}
	})
}

func TestANodesNameIsItsOwnPerTable(t *testing.T) {
	s, app := full.open(t)
	other := open(t, app.url, full.tables)
	if err := s.Supersede(t.Context(), "n1", "boot1"); err != nil {
		t.Fatal(err)
	}
	if err := other.Supersede(t.Context(), "n1", "boot2"); !errors.Is(err, store.ErrNameInUse) {
		t.Errorf("got %v", err)
	}
	if err := other.Supersede(t.Context(), "n2", "boot1"); err != nil {
		t.Errorf("by another name: %v", err)
	}
}
