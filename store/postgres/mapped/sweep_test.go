package mapped_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres/mapped"
)

const grace = 30 * time.Second

func wantSwept(t *testing.T, s *mapped.Store, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if n, err := mapped.Sweep(ctx, s, grace); n != want || err != nil {
		t.Errorf("swept %d, %v, want %d", n, err, want)
	}
}

// ended makes the lease of a node's first boot one that ended so long ago.
func (b *backdoor) ended(name string, ago time.Duration) {
	b.tb.Helper()
	b.exec(`
		INSERT INTO rillkeep.nodes (name, incarnation, expires_at) VALUES ($1, 'boot1', now() - $2::interval)
		ON CONFLICT (name, incarnation) DO UPDATE SET expires_at = excluded.expires_at`, name, ago)
}

// write opens a message on a node's first boot and appends texts.
func (b *backdoor) write(t *testing.T, s store.Store, node, id string, texts ...string) plane.Row {
	t.Helper()
	b.exec("INSERT INTO {messages} ({id}, {seq}) VALUES ($1, 0)", id)
	row, err := s.Open(t.Context(), plane.Claim{ID: id, Node: node + "/boot1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		row = appended(t, s, id, row, text)
	}
	return row
}

// is fails the test unless a message is as said, its text in one piece.
func (b *backdoor) is(t *testing.T, id string, status plane.Status, text string) {
	t.Helper()
	page, err := b.Text(t.Context(), id, 0, 0)
	if err != nil || page.Status != status || page.Text != text || page.Seq != plane.Units(text) {
		t.Errorf("%s is %+v, %v, want %s %.40q", id, page, err, status, text)
	}
	if row, _ := b.Row(id); status.Ended() && (row.Body != text || row.Chunks != nil) {
		t.Errorf("the row of %s is %+v", id, row)
	}
}

func TestAMessageIsSweptOnceItsOwnersLeaseIsOverForTheGrace(t *testing.T) {
	for name, app := range map[string]application{"full": full, "odd": odd} {
		t.Run(name, func(t *testing.T) {
			s, door := app.open(t)
			for id, node := range map[string]string{
				"live": "n1", "dead": "n2", "late": "n3", "unknown": "n4", "similar": "n2-", "nobody": "n5", "foreign": "n6", "slash": "n7",
			} {
				door.write(t, s, node, id, "x😀")
			}
			if _, err := s.Renew(t.Context(), store.Node{Name: "n1", Incarnation: "boot1"}, time.Hour); err != nil {
				t.Fatal(err)
			}
			door.ended("n2", time.Minute)
			door.ended("n3", 10*time.Second)
			door.exec("UPDATE {messages} SET {host} = NULL WHERE {id} = 'nobody'")
			door.exec("UPDATE {messages} SET {host} = 'pod-7' WHERE {id} = 'foreign'")
			door.exec("UPDATE {messages} SET {host} = '/boot1/1' WHERE {id} = 'slash'")
			wantSwept(t, s, 1)
			wantSwept(t, s, 0)
			door.is(t, "dead", plane.StatusInterrupted, "x😀")
			for _, id := range []string{"live", "late", "unknown", "similar", "nobody", "foreign", "slash"} {
				door.is(t, id, plane.StatusStreaming, "x😀")
			}
			// That the owners of two have no lease was written down: it is from then
			// on that it counts.
			door.exec("UPDATE rillkeep.nodes SET expires_at = expires_at - interval '25 s' WHERE name <> 'n1'")
			wantSwept(t, s, 1)
			door.is(t, "late", plane.StatusInterrupted, "x😀")
			door.exec("UPDATE rillkeep.nodes SET expires_at = expires_at - interval '25 s' WHERE name <> 'n1'")
			wantSwept(t, s, 2)
			for _, id := range []string{"unknown", "similar"} {
				door.is(t, id, plane.StatusInterrupted, "x😀")
			}
		})
	}
}

// A lease that somebody deleted is back with its next renewal.
func TestAnOwnerWithoutALeaseThatRenewsItKeepsItsMessages(t *testing.T) {
	s, door := full.open(t)
	door.write(t, s, "n1", "s", "abc")
	node := store.Node{Name: "n1", Incarnation: "boot1"}
	wantSwept(t, s, 0)
	if nodes, err := s.Nodes(t.Context()); err != nil || len(nodes) != 0 {
		t.Errorf("nodes %v, %v", nodes, err)
	}
	if _, err := s.Renew(t.Context(), node, time.Hour); err != nil {
		t.Fatal(err)
	}
	wantSwept(t, s, 0)
	if nodes, err := s.Nodes(t.Context()); err != nil || len(nodes) != 1 || nodes[0] != node {
		t.Errorf("nodes %v, %v", nodes, err)
	}
	if err := s.Release(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	wantSwept(t, s, 0)
	door.is(t, "s", plane.StatusStreaming, "abc")
}

func TestWhatIsSweptHasItsWholeTextAndStaysSo(t *testing.T) {
	s, door := full.open(t)
	texts := map[string]string{"empty": "", "short": "a", "long": strings.Repeat("of many 😀 checkpoints ", 2000)}
	for id, text := range texts {
		var slices []string
		for rest := text; rest != ""; rest = rest[len(slices[len(slices)-1]):] {
			slices = append(slices, rest[:plane.Cut(rest, 5000)])
		}
		door.write(t, s, "n1", id, slices...)
	}
	door.write(t, s, "n1", "holed", "abc", "def")
	door.exec("DELETE FROM {chunks} WHERE {stream} = 'holed' AND {end} = 3")
	door.ended("n1", time.Minute)
	wantSwept(t, s, 4)
	for id, text := range texts {
		to := plane.Units(text)
		if got, err := s.Append(t.Context(), plane.Slice{ID: id, Token: token, From: to, Seq: to + 1, Text: "x"}); err != nil || got.Status != plane.StatusInterrupted {
			t.Errorf("append to %s: %+v, %v", id, got, err)
		}
		if got, err := s.Seal(t.Context(), plane.Seal{ID: id, Token: token, Status: plane.StatusComplete, Seq: 1, Text: "x"}); err != nil || got.Status != plane.StatusInterrupted {
			t.Errorf("seal of %s: %+v, %v", id, got, err)
		}
		door.is(t, id, plane.StatusInterrupted, text)
	}
	if row, _ := door.Row("holed"); row.Status != plane.StatusInterrupted || row.Seq != 0 || len(row.Chunks) != 1 || !strings.Contains(row.Error, "deleted by others") {
		t.Errorf("holed: %+v", row)
	}
}

func TestALockedOrphanAndOneThatCannotBeSealedCostThemselvesAlone(t *testing.T) {
	s, door := full.open(t)
	for n := range 40 {
		door.write(t, s, "n1", fmt.Sprintf("s%02d", n), "abc")
	}
	door.ended("n1", time.Minute)
	door.exec("ALTER TABLE {messages} ADD CHECK ({id} <> 's21' OR {status} <> 'interrupted')")
	release := door.locks(t, "s07")
	n, err := mapped.Sweep(t.Context(), s, grace)
	if n != 38 || err == nil || !strings.Contains(err.Error(), `"s21"`) || strings.Contains(err.Error(), `"s07"`) {
		t.Errorf("swept %d, %v", n, err)
	}
	release()
	door.exec("ALTER TABLE {messages} DROP CONSTRAINT message_check")
	wantSwept(t, s, 2)
	door.is(t, "s07", plane.StatusInterrupted, "abc")
	door.is(t, "s21", plane.StatusInterrupted, "abc")
}

func TestSweepersShareTheWork(t *testing.T) {
	s, door := full.open(t)
	const messages = 200
	for _, sql := range []string{
		fmt.Sprintf("INSERT INTO {messages} ({id}, {status}, {host}, {seq}) SELECT 's' || n, 'streaming', 'n1/boot1/1', 6 FROM generate_series(1, %d) n", messages),
		"INSERT INTO {chunks} ({chunk}, {stream}, {end}, {text}) SELECT {id} || ':' || at, {id}, at, 'abc' FROM {messages}, unnest(ARRAY[3, 6]) at",
		// A message that is sealed twice would show.
		"CREATE TABLE seals (id text)",
		"CREATE FUNCTION sealed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seals VALUES (old.id); RETURN new; END $$",
		"CREATE TRIGGER sealed BEFORE UPDATE ON {messages} FOR EACH ROW EXECUTE FUNCTION sealed()",
	} {
		door.exec(sql)
	}
	door.ended("n1", time.Minute)
	sweepers := []*mapped.Store{s, open(t, door.url, full.tables), open(t, door.url, full.tables)}
	counts := make([]int, len(sweepers))
	var all sync.WaitGroup
	for i, s := range sweepers {
		all.Go(func() {
			var err error
			if counts[i], err = mapped.Sweep(t.Context(), s, grace); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	var seals, whole, chunks int
	err := door.db.QueryRow(t.Context(), door.sql(`
		SELECT (SELECT count(*) FROM seals), count(*), (SELECT count(*) FROM {chunks})
		FROM {messages} WHERE {status} = 'interrupted' AND {body} = 'abcabc'`)).Scan(&seals, &whole, &chunks)
	if err != nil || seals != messages || whole != messages || chunks != 0 || counts[0]+counts[1]+counts[2] != messages {
		t.Errorf("%v swept, %d seals, %d sound rows, %d chunks left, %v", counts, seals, whole, chunks, err)
	}
}
