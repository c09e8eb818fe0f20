package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/rows"
	"rillkeep.dev/rillkeep/store/sqlite"
	"rillkeep.dev/rillkeep/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(tb testing.TB) store.Store {
		path := filepath.Join(tb.TempDir(), "a b?#%.db")
		s := open(tb, path, sqlite.Config{NoSync: true})
		return &backdoor{Store: s, tb: tb, db: raw(tb, path)}
	})
}

func open(tb testing.TB, path string, cfg sqlite.Config) *sqlite.Store {
	tb.Helper()
	s, err := sqlite.Open(tb.Context(), path, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { shut(tb, s) })
	return s
}

// shut closes a store, which tests' contexts do not live to see.
func shut(tb testing.TB, s store.Store) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		tb.Errorf("close: %v", err)
	}
}

// raw is the file past the store.
func raw(tb testing.TB, path string) *sql.DB {
	tb.Helper()
	name := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
	db, err := sql.Open("sqlite", "file:"+name+"?_pragma=busy_timeout(10000)&_pragma=synchronous(0)&_txlock=immediate")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.Close() })
	return db
}

type backdoor struct {
	store.Store
	tb testing.TB
	db *sql.DB
}

func (b *backdoor) Row(id string) (storetest.Row, bool) {
	b.tb.Helper()
	row, ok := storetest.Row{}, true
	var errs []error
	var message, meta sql.NullString
	var created, updated, ended sql.NullInt64
	err := b.db.QueryRow(`
		SELECT body, seq, status, coalesce(host, ''), epoch, cancel, error, coalesce(producer, ''), meta, created_at, updated_at, ended_at
		FROM streams WHERE id = ?`, id).Scan(&row.Body, &row.Seq, &row.Status, &row.Token, &row.Epoch, &row.Cancel,
		&message, &row.Producer, &meta, &created, &updated, &ended)
	if errors.Is(err, sql.ErrNoRows) {
		ok, err = false, nil
	}
	errs = append(errs, err)
	row.Error, row.HasError = message.String, message.Valid
	if meta.Valid {
		row.Meta = json.RawMessage(meta.String)
	}
	for to, from := range map[*time.Time]sql.NullInt64{&row.Created: created, &row.Updated: updated, &row.Ended: ended} {
		if from.Valid {
			*to = time.UnixMicro(from.Int64)
		}
	}
	chunks, err := b.db.Query("SELECT seq, text FROM chunks WHERE stream_id = ? ORDER BY seq", id)
	if err != nil {
		b.tb.Fatal(err)
	}
	defer chunks.Close()
	for chunks.Next() {
		var c plane.Chunk
		errs = append(errs, chunks.Scan(&c.Seq, &c.Text))
		row.Chunks = append(row.Chunks, c)
	}
	if err := errors.Join(append(errs, chunks.Err())...); err != nil {
		b.tb.Fatal(err)
	}
	return row, ok
}

func (b *backdoor) Edit(id string, edit func(*storetest.Row)) {
	b.tb.Helper()
	row, ok := b.Row(id)
	if !ok {
		row.Status = plane.StatusPending
	}
	edit(&row)
	marks, err := json.Marshal(rows.Marks(row.Body))
	if err != nil {
		b.tb.Fatal(err)
	}
	var meta, message *string
	if row.Meta != nil {
		meta = new(string(row.Meta))
	}
	if row.HasError {
		message = &row.Error
	}
	var ended *int64
	if !row.Ended.IsZero() {
		ended = new(row.Ended.UnixMicro())
	}
	b.exec(`
		INSERT OR REPLACE INTO streams (id, body, marks, seq, status, host, epoch, cancel, error, producer, meta, created_at, updated_at, ended_at)
		VALUES (?, ?, ?, ?, ?, nullif(?, ''), ?, ?, ?, nullif(?, ''), ?, ?, ?, ?)`,
		id, row.Body, string(marks), row.Seq, string(row.Status), row.Token, row.Epoch, row.Cancel, message, row.Producer, meta,
		micros(row.Created), micros(row.Updated), ended)
	b.exec("DELETE FROM chunks WHERE stream_id = ?", id)
	for _, c := range row.Chunks {
		b.exec("INSERT INTO chunks (stream_id, seq, text) VALUES (?, ?, ?)", id, c.Seq, c.Text)
	}
}

// micros is a time as it is stored; now if there is none.
func micros(t time.Time) int64 {
	if t.IsZero() {
		t = time.Now()
	}
	return t.UnixMicro()
}

func (b *backdoor) Delete(id string) {
	b.tb.Helper()
	b.exec("DELETE FROM streams WHERE id = ?", id)
}

func (b *backdoor) exec(sql string, args ...any) {
	b.tb.Helper()
	if _, err := b.db.Exec(sql, args...); err != nil {
		b.tb.Fatal(err)
	}
}

// As an earlier release has it.
func TestAFileThatIsNotSharedIsInUse(t *testing.T) {
	dir := t.TempDir()
	end := sqlite.Alone(t, filepath.Join(dir, "rillkeep.db"))
	for _, path := range []string{dir, filepath.Join(dir, "rillkeep.db")} {
		_, err := sqlite.Open(t.Context(), path, sqlite.Config{})
		if !errors.Is(err, sqlite.ErrInUse) || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v", err)
		}
	}
	end()
	open(t, dir, sqlite.Config{})
	open(t, dir, sqlite.Config{})
}

func TestAMissingFolderIsMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x", "y") + string(filepath.Separator)
	open(t, dir, sqlite.Config{})
	if _, err := os.Stat(filepath.Join(dir, "rillkeep.db")); err != nil {
		t.Error(err)
	}
}

func TestNoPathIsRefused(t *testing.T) {
	if _, err := sqlite.Open(t.Context(), "", sqlite.Config{}); err == nil {
		t.Error("no error")
	}
}

func TestWhatWasWrittenIsThereAfterReopening(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, sqlite.Config{})
	row, err := s.Open(t.Context(), plane.Claim{ID: "s", Node: "n1/boot1"})
	if err != nil {
		t.Fatal(err)
	}
	if row, err = s.Append(t.Context(), plane.Slice{ID: "s", Token: row.Token, Seq: 3, Text: "abc"}); err != nil {
		t.Fatal(err)
	}
	shut(t, s)
	s = open(t, dir, sqlite.Config{})
	page, err := s.Text(t.Context(), "s", 0, 0)
	if err != nil || page.Text != "abc" || page.Row != row {
		t.Errorf("got %+v, %v", page, err)
	}
}

func TestCommitsWaitForTheDiskUnlessToldOtherwise(t *testing.T) {
	for cfg, want := range map[sqlite.Config]int{{}: 2, {NoSync: true}: 1} {
		s := open(t, t.TempDir(), cfg)
		if got := sqlite.Synchronous(t, s); got != want {
			t.Errorf("%+v: synchronous is %d, want %d", cfg, got, want)
		}
	}
}

func TestANewerReleasesTablesAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	shut(t, open(t, path, sqlite.Config{}))
	if _, err := raw(t, path).Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), path, sqlite.Config{}); !errors.Is(err, store.ErrNewerSchema) {
		t.Errorf("got %v", err)
	}
}

func TestAWriteThatFailsFailsAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	s := open(t, path, sqlite.Config{})
	const streams = 40
	for n := range streams {
		if _, err := s.Open(t.Context(), plane.Claim{ID: fmt.Sprint(n), Node: "n1/boot1"}); err != nil {
			t.Fatal(err)
		}
	}
	// A chunk row that should not be there is in the way of every fourth.
	_, err := raw(t, path).Exec("INSERT INTO chunks SELECT id, 3, 'xxx' FROM streams WHERE CAST(id AS INTEGER) % 4 = 0")
	if err != nil {
		t.Fatal(err)
	}
	release := sqlite.Hold(s) // so that all of them are one batch
	ctx, leave := context.WithCancel(t.Context())
	errs := make([]error, streams)
	var stay, left sync.WaitGroup
	for n := range streams {
		ctx, wait := ctx, &left
		if n%4 != 1 {
			ctx, wait = t.Context(), &stay
		}
		wait.Go(func() {
			_, errs[n] = s.Append(ctx, plane.Slice{ID: fmt.Sprint(n), Token: "n1/boot1/1", Seq: 3, Text: "abc"})
		})
	}
	sqlite.WaitQueued(s, streams)
	leave()
	left.Wait()
	release()
	stay.Wait()
	for n, err := range errs {
		row, unread := s.Read(t.Context(), fmt.Sprint(n))
		if unread != nil {
			t.Fatal(unread)
		}
		switch n % 4 {
		case 0:
			if err == nil || row.Seq != 0 {
				t.Errorf("%d, in the way of which there is a row: %v, %+v", n, err, row)
			}
		case 1:
			if !errors.Is(err, context.Canceled) || row.Seq != 0 {
				t.Errorf("%d, whose caller left: %v, %+v", n, err, row)
			}
		default:
			if err != nil || row.Seq != 3 {
				t.Errorf("%d: %v, %+v", n, err, row)
			}
		}
	}
}

func TestClosingAnswersThoseWhoWait(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, sqlite.Config{NoSync: true})
	errs := make([]error, 400) // more than the queue holds
	var all sync.WaitGroup
	release := sqlite.Hold(s)
	for n := range errs {
		all.Go(func() {
			_, errs[n] = s.Open(context.Background(), plane.Claim{ID: fmt.Sprint(n), Node: "n1/boot1"})
		})
	}
	sqlite.WaitQueued(s, 256)
	all.Go(func() { shut(t, s) })
	release()
	all.Wait()

	s = open(t, dir, sqlite.Config{NoSync: true})
	for n, err := range errs {
		if _, missing := s.Read(t.Context(), fmt.Sprint(n)); (err == nil) != (missing == nil) {
			t.Errorf("%d was answered %v and is read back with %v", n, err, missing)
		}
	}
}

func TestClosingWaitsForACallAsLongAsItsContextLasts(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, sqlite.Config{NoSync: true})
	release := sqlite.Hold(s)
	var row plane.Row
	var err error
	var call sync.WaitGroup
	call.Go(func() { row, err = s.Open(t.Context(), plane.Claim{ID: "s", Node: "n1/boot1"}) })
	sqlite.WaitQueued(s, 1)
	ended, end := context.WithCancel(t.Context())
	end()
	if err := s.Close(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("close: %v", err)
	}
	if _, err := s.Read(t.Context(), "s"); err == nil || errors.Is(err, plane.ErrNotFound) {
		t.Errorf("a call began: %v", err)
	}
	if sqlite.Free(t, filepath.Join(dir, "rillkeep.db")) {
		t.Error("the file was let go of")
	}
	release()
	call.Wait()
	if err != nil || row.Epoch != 1 {
		t.Errorf("the call under way: %+v, %v", row, err)
	}
	shut(t, s)
	open(t, dir, sqlite.Config{})
}

func BenchmarkAppend(b *testing.B) {
	storetest.BenchmarkAppend(b, func(b *testing.B) store.Store { return open(b, b.TempDir(), sqlite.Config{}) })
}

func BenchmarkText(b *testing.B) {
	storetest.BenchmarkText(b, func(b *testing.B) store.Store { return open(b, b.TempDir(), sqlite.Config{NoSync: true}) })
}
