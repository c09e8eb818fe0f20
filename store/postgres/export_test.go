package postgres

import "testing"

// Settings answers what bounds the store's sessions.
func Settings(tb testing.TB, s *Store) (text string) {
	tb.Helper()
	err := s.pool.QueryRow(tb.Context(), `
		SELECT concat_ws(' ', current_setting('application_name'), current_setting('statement_timeout'), current_setting('lock_timeout'))`).
		Scan(&text)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// SQL answers statements by name, each with arguments to explain it with.
func (s *Store) SQL() map[string][2]string {
	const state = "'s5', 'n1/boot1/1', "
	return map[string][2]string{
		"append":    {s.stmt.append, state + "0, 1, 'x'"},
		"seal":      {s.stmt.seal, state + "'x', '{}', 1, 'complete', NULL"},
		"lock":      {s.stmt.lock, "'s5', 'n1/boot1/1'"},
		"open":      {s.stmt.open, "'s5', 'n1/boot1', '', NULL"},
		"cancel":    {s.stmt.cancel, "'s5'"},
		"found":     {s.stmt.found, "'s5'"},
		"pieces":    {s.stmt.pieces, "'s5'"},
		"page":      {s.stmt.page, "'s5', 10, 10"},
		"orphans":   {s.stmt.orphans, "'', 'n1/', 'n1/boot2/'"},
		"interrupt": {s.stmt.interrupt, "'s5', 'n1/boot1/1'"},
		"cancelled": {s.sql(cancelledSQL), "'n1/boot1/', ''"},
	}
}
