package mapped_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres/mapped"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// uuids are keys of a type of their own, in both tables or in one.
var uuids = application{
	mapped.Tables{Message: "message", Chunks: "message_chunk", Host: "host"},
	`CREATE TABLE message (id uuid PRIMARY KEY, body text NOT NULL DEFAULT '', status text, seq bigint NOT NULL DEFAULT 0, host text)`,
}

func TestAKeyMayBeAUUID(t *testing.T) {
	for name, alter := range map[string]string{
		"with a text in the chunks": "", "with a uuid there too": `ALTER TABLE message_chunk ALTER COLUMN "streamId" TYPE uuid USING NULL`,
	} {
		t.Run(name, func(t *testing.T) {
			url := pgtest.URL(t)
			db := raw(t, url)
			uuids.create(t, db)
			exec(t, db, alter)
			s := open(t, url, uuids.tables)
			const a, b = "0b5b3a52-1111-4d3b-8a57-6f9e6bd0a001", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
			exec(t, db, "INSERT INTO message (id) VALUES ($1), ($2)", a, b)
			for _, id := range []string{"m1", "", strings.ToUpper(b), "{" + b + "}", strings.ReplaceAll(b, "-", "")} {
				wantNone(t, s, id)
			}
			row := appended(t, s, b, claim(t, s, b), "abc")
			many := []plane.Slice{{ID: a, Token: row.Token, Seq: 1, Text: "x"}, {ID: b, Token: row.Token, From: 3, Seq: 4, Text: "d"}}
			if got, err := mapped.AppendMany(t.Context(), s, many); err != nil || got[0].Row.Status != plane.StatusPending || got[1].Row.Seq != 4 {
				t.Errorf("over arrays: %+v, %v", got, err)
			}
			if page, err := s.Text(t.Context(), b, 1, 0); err != nil || page.Text != "bcd" {
				t.Errorf("text: %+v, %v", page, err)
			}
			for _, c := range []struct {
				q    store.Query
				want string
			}{
				{store.Query{}, a + b}, {store.Query{After: a}, b}, {store.Query{After: "0c"}, b}, {store.Query{Prefix: "a0ee"}, b},
				{store.Query{After: b}, ""}, {store.Query{Status: plane.StatusStreaming}, b}, {store.Query{Limit: 1}, a},
			} {
				if got := listed(t, s, c.q); strings.Join(got, "") != c.want {
					t.Errorf("%+v: %q", c.q, got)
				}
			}
			if row, err := s.TakeOver(t.Context(), row.Token, plane.Claim{ID: b, Node: "n2/boot1"}); err != nil || row.Token != "n2/boot1/2/4" {
				t.Errorf("take over: %+v, %v", row, err)
			}
			if stream, err := s.Get(t.Context(), b); err != nil || stream.ID != b || stream.Epoch != 2 || stream.Seq != 4 {
				t.Errorf("get: %+v, %v", stream, err)
			}
		})
	}
}

// wantNone fails the test unless a call by an id that can be no key finds nothing.
func wantNone(t *testing.T, s store.Store, id string) {
	t.Helper()
	_, opened := s.Open(t.Context(), plane.Claim{ID: id, Node: node})
	_, appended := s.Append(t.Context(), plane.Slice{ID: id, Token: token, Seq: 1, Text: "a"})
	_, sealed := s.Seal(t.Context(), plane.Seal{ID: id, Token: token, Status: plane.StatusComplete})
	_, read := s.Read(t.Context(), id)
	_, got := s.Get(t.Context(), id)
	_, text := s.Text(t.Context(), id, 0, 0)
	for name, err := range map[string]error{"open": opened, "append": appended, "seal": sealed, "read": read, "get": got, "text": text} {
		if !errors.Is(err, plane.ErrNotFound) {
			t.Errorf("%s of %q: %v", name, id, err)
		}
	}
}

func listed(t *testing.T, s store.Store, q store.Query) (ids []string) {
	t.Helper()
	list, err := s.List(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range list {
		ids = append(ids, stream.ID)
	}
	return ids
}

// A language's order is not that of bytes, nor is a prefix a range in it.
func TestListsAreInTheOrderOfTheKeysCollation(t *testing.T) {
	url := pgtest.URL(t)
	db := raw(t, url)
	anew(t, db)
	exec(t, db, `ALTER TABLE message ALTER COLUMN id TYPE text COLLATE "de-x-icu"`)
	s := open(t, url, full.tables)
	exec(t, db, "INSERT INTO message (id) SELECT unnest($1::text[])", []string{"a", "B", "ä", "Z", "b", "az", "a-1", "b%", "ba"})
	var all []string
	for q := (store.Query{Limit: 2}); ; {
		page := listed(t, s, q)
		if len(page) == 0 {
			break
		}
		all = append(all, page...)
		q.After = page[len(page)-1]
	}
	if got := strings.Join(all, " "); got != "a ä a-1 az b B b% ba Z" {
		t.Errorf("got %s", got)
	}
	for prefix, want := range map[string]string{"a": "a a-1 az", "b": "b b% ba", "b%": "b%", "ä": "ä", "c": ""} {
		if got := strings.Join(listed(t, s, store.Query{Prefix: prefix}), " "); got != want {
			t.Errorf("%s: got %s", prefix, got)
		}
	}
}

// However large the tables are, no statement may read through them, with the
// indexes that DDL names.
func TestStatementsUseIndexes(t *testing.T) {
	url := pgtest.URL(t) + "&plan_cache_mode=force_generic_plan&pool_max_conns=1"
	db := raw(t, url)
	anew(t, db)
	s := open(t, url, full.tables)
	exec(t, db, `INSERT INTO message (id, status, host)
		SELECT 's' || n, CASE WHEN n % 100 = 0 THEN 'streaming' ELSE 'complete' END, 'n' || n % 1000 / 100 || '/boot1/1' FROM generate_series(1, 50000) n`)
	exec(t, db, `INSERT INTO message_chunk SELECT 's' || n % 1000 || ':' || n, 's' || n % 1000, n, 'text' FROM generate_series(1, 50000) n`)
	exec(t, db, "ANALYZE")
	for name, statement := range s.SQL() {
		t.Run(name, func(t *testing.T) {
			exec(t, db, "PREPARE p AS "+statement[0])
			args := ""
			if statement[1] != "" {
				args = "(" + statement[1] + ")"
			}
			lines, err := db.Query(t.Context(), "EXPLAIN EXECUTE p"+args)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := pgx.CollectRows(lines, pgx.RowTo[string])
			if err != nil || len(plan) == 0 || strings.Contains(strings.ReplaceAll(strings.Join(plan, "\n"), "Seq Scan on nodes", ""), "Seq Scan") {
				t.Errorf("%v\n%s", err, strings.Join(plan, "\n"))
			}
			exec(t, db, "DEALLOCATE p")
		})
	}
}
