package postgres

import (
	"context"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/internal/group"
	"rillkeep.dev/rillkeep/store/internal/pg"
)

// AppendOne appends one slice, as if one had met a locked row before or not.
func AppendOne(ctx context.Context, s *Store, careful bool, slice plane.Slice) (plane.Row, error) {
	a := s.appender()
	a.Patient = careful
	row, err := a.One(ctx, slice)
	if err != nil {
		err = pg.Failed(ctx, err, "append")
	}
	return row, err
}

// AppendMany appends one batch, as if one had met a locked row before or not.
func AppendMany(ctx context.Context, s *Store, careful bool, slices []plane.Slice) ([]group.Answer, error) {
	a := s.appender()
	if careful {
		a.SQL.Many = ""
	}
	return a.Many(ctx, slices)
}

// Settings answers what bounds the store's sessions.
func Settings(tb testing.TB, s *Store) string {
	tb.Helper()
	return s.settings(tb, "application_name", "statement_timeout", "lock_timeout")
}

// Ends answers what ends sessions that nobody uses any more.
func Ends(tb testing.TB, s *Store) string {
	tb.Helper()
	return s.settings(tb, "idle_in_transaction_session_timeout", "tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count")
}

func (s *Store) settings(tb testing.TB, names ...string) (text string) {
	tb.Helper()
	err := s.pool.QueryRow(tb.Context(), "SELECT string_agg(current_setting(name), ' ' ORDER BY n) FROM unnest($1::text[]) WITH ORDINALITY AS s (name, n)", names).
		Scan(&text)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// SQL answers statements by name, each with arguments to explain it with.
func (s *Store) SQL() map[string][2]string {
	const state = "'s5', 'n1/boot1/1', "
	const many = "ARRAY['s5', 's6'], ARRAY['n1/boot1/1', 'n1/boot1/1'], ARRAY[0, 0], ARRAY[1, 1], ARRAY['x', 'y']"
	return map[string][2]string{
		"append":     {s.stmt.append, state + "0, 1, 'x'"},
		"append now": {s.stmt.appendNow, state + "0, 1, 'x'"},
		"appends":    {s.stmt.appends, many},
		"free ones":  {s.stmt.appendsFree, many},
		"rows":       {s.stmt.readAll, "ARRAY['s5', 's6']"},
		"fold":       {s.stmt.fold, state + "'x', '{}', 1, 'complete', NULL, NULL, 0, 1"},
		"seal":       {s.stmt.seal, state + "'x', '{}', 1, 'complete', NULL, NULL"},
		"lock":       {s.stmt.lock, "'s5', 'n1/boot1/1', 1"},
		"open":       {s.stmt.open, "'s5', 'n1/boot1', '', NULL"},
		"cancel":     {s.stmt.cancel, "'s5'"},
		"found":      {s.stmt.found, "'s5'"},
		"pieces":     {s.stmt.pieces, "'s5'"},
		"page":       {s.stmt.page, "'s5', 10, 10"},
		"disown":     {s.stmt.disown, "'s5', 'n1/boot1/1', 1"},
		"take over":  {s.stmt.takeOver, "'s5', 'n1/boot1/1', 'n2/boot1', '/', 'app'"},
		"adopt":      {s.stmt.adopt, "'s5', '/1/1', 'n2/boot1'"},
		"chunks":     {s.stmt.chunks, "'s5'"},
		"cut":        {s.stmt.cut, "'s5', 'x', '{}', 1, 'lost', NULL"},
		"cancelled":  {s.sql(cancelledSQL), "'n1/boot1/', ''"},
	}
}
