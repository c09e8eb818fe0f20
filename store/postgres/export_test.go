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
