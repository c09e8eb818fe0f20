package mapped_test

import (
	"context"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/internal/group"
	"rillkeep.dev/rillkeep/store/internal/pgcontract"
	"rillkeep.dev/rillkeep/store/postgres/mapped"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// locks holds a message's lock, as an application may, until release.
func (b *backdoor) locks(tb testing.TB, id string) (release func()) {
	tb.Helper()
	tx := begin(tb, b.db)
	if _, err := tx.Exec(tb.Context(), b.sql("SELECT FROM {messages} WHERE {id} = $1 FOR UPDATE"), id); err != nil {
		tb.Fatal(err)
	}
	return func() { _ = tx.Rollback(context.Background()) }
}

func TestWhatStoresInPostgresPromiseAlike(t *testing.T) {
	for name, app := range map[string]application{"full": full, "bare": bare, "odd": odd} {
		t.Run(name, func(t *testing.T) {
			pgcontract.Run(t, func(tb testing.TB) *pgcontract.Subject {
				s, door := app.open(tb)
				return &pgcontract.Subject{
					Store: s, Backdoor: door, Tokenless: app.tables.Host == "", Lock: door.locks,
					Batch: func(slices []plane.Slice) ([]group.Answer, error) { return mapped.AppendMany(tb.Context(), s, slices) },
					Refuse: func(_ testing.TB, text string) {
						door.exec("ALTER TABLE {chunks} ADD CHECK ({text} <> '" + text + "')")
					},
				}
			})
		})
	}
}

// The server takes locks of its own, such as of a table that grows: who waits for one
// of those tries again by itself, and longer. That holds for each of a batch.
func TestALockThatIsNotTheRowsCostsNoAppend(t *testing.T) {
	each(t, func(t *testing.T, s *opened) {
		inserts := pgtest.Busy(t, s.door.db, s.door.sql("{chunks}"))
		subject := &pgcontract.Subject{Store: s, Backdoor: s.door}
		for id, err := range subject.AppendAll(t.Context(), t, pgcontract.IDs(20), 3, func(string) string { return "text" }) {
			t.Errorf("%s: %v", id, err)
		}
		if n := inserts(); n <= 20*3 {
			t.Errorf("nothing was tried again: %d inserts", n)
		}
	})
}
