package mapped_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres/mapped"
)

// undoing is tables whose trigger leaves the message "kept" as it is, after it was
// opened and three units were appended.
func undoing(t *testing.T) (*mapped.Store, *backdoor, plane.Row) {
	t.Helper()
	s, door := full.open(t)
	door.exec("INSERT INTO {messages} ({id}) VALUES ('kept'), ('free')")
	row := claim(t, s, "kept")
	row, err := s.Append(t.Context(), plane.Slice{ID: "kept", Token: row.Token, Seq: 3, Text: "abc"})
	if err != nil {
		t.Fatal(err)
	}
	door.exec("CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$")
	door.exec("CREATE TRIGGER keep BEFORE UPDATE ON {messages} FOR EACH ROW WHEN (OLD.{id} = 'kept') EXECUTE FUNCTION keep()")
	return s, door, row
}

func TestWhatATriggerUndoesIsNotSaidToBeDone(t *testing.T) {
	t.Parallel()
	s, door, row := undoing(t)
	slice := plane.Slice{ID: "kept", Token: row.Token, From: 3, Seq: 6, Text: "def"}
	for name, call := range map[string]func(context.Context) (plane.Row, error){
		"append": func(ctx context.Context) (plane.Row, error) { return s.Append(ctx, slice) },
		"cancel": func(ctx context.Context) (plane.Row, error) { return s.Cancel(ctx, "kept") },
		"disown": func(ctx context.Context) (plane.Row, error) { return s.Disown(ctx, "kept", row.Token, 1) },
		"seal": func(ctx context.Context) (plane.Row, error) {
			return s.Seal(ctx, plane.Seal{ID: "kept", Token: row.Token, Status: plane.StatusComplete, From: 3, Seq: 6, Text: "abcdef"})
		},
	} {
		if got, err := call(t.Context()); err != nil || got != row {
			t.Errorf("%s: told %+v, %v", name, got, err)
		}
	}
	free := claim(t, s, "free")
	answers, err := mapped.AppendMany(t.Context(), s, []plane.Slice{slice, {ID: "free", Token: free.Token, Seq: 3, Text: "abc"}})
	if err != nil || answers[0].Err == nil || answers[1].Err != nil || answers[1].Row.Seq != 3 {
		t.Errorf("a batch: told %+v, %v", answers, err)
	}
	if now, _ := door.Row("kept"); len(now.Chunks) != 1 || now.Seq != 3 {
		t.Errorf("the row is %+v", now)
	}
}

func TestAnAdoptionThatATriggerUndoesIsRefused(t *testing.T) {
	t.Parallel()
	s, door, row := undoing(t)
	door.exec("ALTER TABLE {messages} DISABLE TRIGGER keep")
	given, err := s.Disown(t.Context(), "kept", row.Token, 1)
	if err != nil {
		t.Fatal(err)
	}
	door.exec("ALTER TABLE {messages} ENABLE TRIGGER keep")
	if got, err := s.Adopt(t.Context(), "kept", given.Token, "n2/boot1"); !errors.Is(err, plane.ErrLostRace) {
		t.Errorf("told %+v, %v", got, err)
	}
}

func TestATakeoverThatATriggerUndoesIsRefused(t *testing.T) {
	t.Parallel()
	s, _, row := undoing(t)
	if got, err := s.TakeOver(t.Context(), row.Token, plane.Claim{ID: "kept", Node: "n2/boot1"}); !errors.Is(err, plane.ErrLostRace) {
		t.Errorf("told %+v, %v", got, err)
	}
}

// Nor does the sweep go on for ever, or delete what it has not put together.
func TestAnOrphanThatATriggerKeepsCostsNoOtherAndNoText(t *testing.T) {
	t.Parallel()
	s, door, _ := undoing(t)
	claim(t, s, "free")
	count, err := mapped.Sweep(t.Context(), s, 0)
	if count != 1 || err == nil || !strings.Contains(err.Error(), `"kept"`) {
		t.Errorf("swept %d, %v", count, err)
	}
	if now, _ := door.Row("kept"); len(now.Chunks) != 1 || now.Status != plane.StatusStreaming {
		t.Errorf("the row is %+v", now)
	}
}

// As of a trigger that counts in the row of a conversation.
func TestARowThatATriggerWaitsForCostsNoOtherOfItsBatch(t *testing.T) {
	t.Parallel()
	s, door := full.open(t)
	door.exec("CREATE TABLE talk (id text PRIMARY KEY, units bigint NOT NULL DEFAULT 0)")
	door.exec("INSERT INTO talk VALUES ('held')")
	door.exec(`CREATE FUNCTION counted() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN UPDATE talk SET units = NEW.seq WHERE id = NEW.author; RETURN NULL; END $$`)
	door.exec("CREATE TRIGGER counted AFTER UPDATE OF {seq} ON {messages} FOR EACH ROW EXECUTE FUNCTION counted()")
	var ids []string
	for n := range 40 {
		ids = append(ids, fmt.Sprintf("s%02d", n))
		door.exec("INSERT INTO {messages} ({id}, author) VALUES ($1, CASE $1 WHEN 's07' THEN 'held' END)", ids[n])
		claim(t, s, ids[n])
	}
	tx := begin(t, door.db)
	if _, err := tx.Exec(t.Context(), "SELECT FROM talk FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for round := range int64(5) {
		var all sync.WaitGroup
		for _, id := range ids {
			all.Go(func() {
				held, from := id == "s07", round
				if held {
					from = 0
				}
				_, err := s.Append(ctx, plane.Slice{ID: id, Token: "n1/boot1/1", From: from, Seq: from + 1, Text: "x"})
				if errors.Is(err, store.ErrBusy) != held || !held && err != nil {
					t.Errorf("%s: %v", id, err)
				}
			})
		}
		all.Wait()
	}
}
