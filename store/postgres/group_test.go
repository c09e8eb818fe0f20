package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/group"
	"rillkeep.dev/rillkeep/store/internal/pgcontract"
	"rillkeep.dev/rillkeep/store/postgres"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

func TestWhatStoresInPostgresPromiseAlike(t *testing.T) {
	t.Parallel()
	for mode, careful := range map[string]bool{"with batches that wait": false, "with careful ones": true} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			pgcontract.Run(t, func(tb testing.TB) *pgcontract.Subject {
				url := pgtest.URL(tb)
				s, db := open(tb, url+lockWait), pgtest.Pool(tb, url)
				return &pgcontract.Subject{
					Store: s, Backdoor: &backdoor{Store: s, tb: tb, db: db, schema: "rillkeep"},
					Batch: func(slices []plane.Slice) ([]group.Answer, error) {
						return postgres.AppendMany(tb.Context(), s, careful, slices)
					},
					Lock: func(tb testing.TB, id string) func() {
						_, release := hold(tb, db, id)
						return release
					},
					Refuse: func(tb testing.TB, text string) {
						exec(tb, db, fmt.Sprintf("ALTER TABLE rillkeep.chunks ADD CHECK (text <> '%s')", text))
					},
				}
			})
		})
	}
}

// An append is one statement and one round trip: the proxy sees each request.
func TestAnAppendIsOneStatement(t *testing.T) {
	t.Parallel()
	p := pgtest.NewProxy(t, pgtest.URL(t))
	s := open(t, p.URL()+"&pool_max_conns=1")
	row := claim(t, s, "s")
	grow := func(text string) {
		t.Helper()
		next, err := s.Append(t.Context(), plane.Slice{ID: "s", Token: token, From: row.Seq, Seq: row.Seq + int64(len(text)), Text: text})
		if err != nil || next.Seq != row.Seq+int64(len(text)) {
			t.Fatalf("%+v, %v", next, err)
		}
		row = next
	}
	grow("prepared")
	var seen []string
	defer p.On(func(sql string) bool { seen = append(seen, sql); return false }, pgtest.CutBefore)()
	grow("counted")
	if len(seen) != 1 || !strings.Contains(seen[0], "UPDATE") || !strings.Contains(seen[0], "INSERT") {
		t.Errorf("%d statements: %q", len(seen), seen)
	}
}

// Who has met a locked row waits for none: it would be every time for as long as
// lock_timeout lets it, with a connection, and a batch with all that is in it.
func TestAfterALockedRowAppendsWaitForNone(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p, db := pgtest.NewProxy(t, url), pgtest.Pool(t, url)
	s := open(t, p.URL())
	locked, free := plane.Slice{ID: "locked", Token: token, Seq: 1, Text: "x"}, plane.Slice{ID: "free", Token: token, Seq: 1, Text: "x"}
	claim(t, s, "locked")
	claim(t, s, "free")
	_, release := hold(t, db, "locked")
	defer release()
	wantBusy := func() {
		t.Helper()
		if _, err := s.Append(t.Context(), locked); !errors.Is(err, store.ErrBusy) {
			t.Errorf("got %v", err)
		}
	}
	wantBusy()
	var seen []string
	defer p.On(func(sql string) bool { seen = append(seen, sql); return false }, pgtest.CutBefore)()
	wantBusy()
	if _, err := s.Append(t.Context(), free); err != nil {
		t.Error(err)
	}
	for _, sql := range seen {
		if strings.Contains(sql, "UPDATE") && !strings.Contains(sql, "NOWAIT") {
			t.Errorf("it waited: %s", sql)
		}
	}
	if len(seen) == 0 {
		t.Error("nothing was seen")
	}
}

// The server takes locks of its own, such as of a table that grows: who waits for one
// of those tries again by itself, and longer.
func TestALockThatIsNotTheRowsCostsNoAppend(t *testing.T) {
	url := pgtest.URL(t)
	s, db := open(t, url), pgtest.Pool(t, url)
	row := claim(t, s, "s")
	inserts := pgtest.Busy(t, db, "rillkeep.chunks")
	row, err := s.Append(t.Context(), plane.Slice{ID: "s", Token: row.Token, Seq: 4, Text: "text"})
	if err != nil || row.Seq != 4 || inserts() != 2 {
		t.Errorf("%+v after %d tries, %v", row, inserts(), err)
	}
}

// Whatever the server says of one row: that it is damaged, that a policy does not
// let it be written, or what a trigger of the application's makes of it.
func TestARowThatIsRefusedCostsNoOtherOfItsBatches(t *testing.T) {
	for _, code := range []string{"XX001", "42501", "0A000", "38000"} {
		t.Run(code, func(t *testing.T) {
			url := pgtest.URL(t)
			s, db := open(t, url), pgtest.Pool(t, url)
			exec(t, db, `
				CREATE FUNCTION bad() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
					IF NEW.stream_id = 's007' THEN RAISE EXCEPTION 'bad' USING ERRCODE = '`+code+`'; END IF;
					RETURN NEW;
				END $$;
				CREATE TRIGGER bad BEFORE INSERT ON rillkeep.chunks FOR EACH ROW EXECUTE FUNCTION bad()`)
			errs := (&pgcontract.Subject{Store: s, Backdoor: &backdoor{tb: t, db: db, schema: "rillkeep"}}).AppendAll(t.Context(), t, pgcontract.IDs(40), 10, func(string) string { return "text" })
			if len(errs) != 1 || errs["s007"] == nil {
				t.Errorf("got %v", errs)
			}
		})
	}
}

// In a stricter one than ours transactions fail for what others read and write.
func TestTheRolesIsolationFailsNobody(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pgtest.Exec(t, url, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database()); END $$")
	s := open(t, url)
	var all sync.WaitGroup
	for n := range 64 {
		all.Go(func() {
			row, err := s.Open(t.Context(), plane.Claim{ID: fmt.Sprint("s", n), Node: "n1/boot1"})
			for range 20 {
				if err != nil {
					t.Errorf("s%d: %v", n, err)
					return
				}
				row, err = s.Append(t.Context(), plane.Slice{ID: fmt.Sprint("s", n), Token: row.Token, From: row.Seq, Seq: row.Seq + 1, Text: "x"})
			}
		})
	}
	all.Wait()
}
