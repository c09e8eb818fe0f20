package sqlite

import (
	"context"
	"runtime"
	"testing"
)

// Synchronous answers the setting of the connection that writes.
func Synchronous(tb testing.TB, s *Store) (level int) {
	tb.Helper()
	if err := s.writer.conn.QueryRowContext(tb.Context(), "PRAGMA synchronous").Scan(&level); err != nil {
		tb.Fatal(err)
	}
	return level
}

// Hold keeps the writer busy until release.
func Hold(s *Store) (release func()) {
	begun, end, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = s.calls.Do(func() error {
			return s.writer.write(context.Background(), func(statements) error {
				close(begun)
				<-end
				return nil
			})
		})
	}()
	<-begun
	return func() {
		close(end)
		<-done
	}
}

// WaitQueued returns once n writes wait.
func WaitQueued(s *Store, n int) {
	for len(s.writer.queue) < n {
		runtime.Gosched()
	}
}

// SQL answers statements by name.
func SQL() map[string]string {
	return map[string]string{
		"found": foundSQL, "advance": advanceSQL, "cancel": cancelSQL, "seal": sealSQL, "drop": dropSQL,
		"lasts": lastsSQL, "taken": takenSQL, "claimed": claimedSQL, "chunks": chunksSQL, "page": pageSQL, "some": someSQL,
		"owner": nextOwnerSQL, "owned": ownedSQL, "orphan": orphanSQL, "ended": endedSQL, "past": pastSQL, "delete": deleteSQL,
		"news": newsSQL, "cancelled": cancelledSQL,
	}
}

// Alone locks a database as a release did that shared it with nobody, until end.
func Alone(tb testing.TB, path string) (end func()) {
	tb.Helper()
	file, _, err := lock(path+useFile, false)
	if err != nil {
		tb.Fatal(err)
	}
	return func() { _ = file.Close() }
}

// Free reports whether nobody has a database open.
func Free(tb testing.TB, path string) bool {
	tb.Helper()
	file, held, err := lock(path+useFile, false)
	if held {
		return false
	}
	if err != nil {
		tb.Fatal(err)
	}
	return file.Close() == nil
}
