// Package sqlite keeps streams in an SQLite file, for the nodes of one machine.
//
// Several processes may have the file open, by whatever symbolic links they reach
// it; one with a second name (a hard link) is refused, since it would have a second
// write-ahead log. All writes of a process pass through one goroutine, which puts
// those that wait into one transaction: one write to the disk makes the checkpoints
// of many streams durable. Processes take turns; one that gets none for seconds
// answers store.ErrBusy.
//
// Nodes' names are locks on files beside the database, and end with their
// processes. Leases and ages are by the machine's clock. The change feed is a
// table, at which those who listen look several times a second.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	_ "modernc.org/sqlite" // the driver

	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// ErrInUse says that a process of an earlier release, which shares with nobody, has
// the file open.
var ErrInUse = errors.New("database is in use")

// fileName is the database in a folder.
const fileName = "rillkeep.db"

// openTime is how long one who opens a file waits for another who does.
const openTime = 5 * time.Second

// readers is how many connections read beside the one that writes.
const readers = 4

// Config is how to use a file. The zero Config is usable.
type Config struct {
	// NoSync lets a commit be answered before it is on the disk
	// (synchronous=NORMAL). A crash of the process then loses nothing, a crash
	// of the machine the last moments of what was called durable. The default
	// waits for the disk at every commit (synchronous=FULL).
	NoSync bool
}

// Store is a store.Store in an SQLite file.
type Store struct {
	lock   *os.File
	turn   turn
	names  names
	reads  *sql.DB
	writer *writer
	calls  rows.Calls
}

var (
	_ store.Store  = (*Store)(nil)
	_ store.Named  = (*Store)(nil)
	_ store.Shared = (*Store)(nil)
)

// Open opens the database at path, a file or a folder that holds one, and
// brings its tables up to this release. What is not there is made; a path that
// ends in a separator names a folder. ErrInUse if an earlier release has it open.
func Open(ctx context.Context, path string, cfg Config) (*Store, error) {
	s, err := open(ctx, path, cfg)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	return s, nil
}

func open(ctx context.Context, path string, cfg Config) (_ *Store, err error) {
	if path == "" {
		return nil, errors.New("no path is given")
	}
	path, err = file(path)
	if err != nil {
		return nil, err
	}
	lock, held, err := lock(path+useFile, true)
	if held {
		return nil, ErrInUse
	}
	if err != nil {
		return nil, err
	}
	s := &Store{lock: lock, names: newNames(path)}
	if err := s.connect(ctx, path, cfg); err != nil {
		return nil, errors.Join(err, s.shut())
	}
	return s, nil
}

// file is the database that path means, past all symbolic links: the lock and
// the write-ahead log are beside the file itself. Its folder is there afterwards.
func file(path string) (string, error) {
	dir := os.IsPathSeparator(path[len(path)-1])
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		dir = true
	}
	if dir {
		path = filepath.Join(path, fileName)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	path, err = resolve(path)
	if err != nil {
		return "", err
	}
	return path, onlyName(path)
}

// resolve is path without symbolic links. What it leads to need not be there,
// but for the folder.
func resolve(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, filepath.Base(path))
	target, err := os.Readlink(path)
	if err != nil {
		return path, nil // no link: it is not there
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(dir, target)
	}
	return resolve(target)
}

func (s *Store) connect(ctx context.Context, path string, cfg Config) error {
	var err error
	if s.turn, err = newTurn(path + turnFile); err != nil {
		return err
	}
	sync := "FULL"
	if cfg.NoSync {
		sync = "NORMAL"
	}
	// The limit keeps a write-ahead log small that one large seal made grow.
	writes, err := sql.Open("sqlite", dsn(path, "journal_mode(WAL)", "synchronous("+sync+")", "journal_size_limit(67108864)"))
	if err != nil {
		return err
	}
	writes.SetMaxOpenConns(1)
	if err := s.prepare(ctx, writes); err != nil {
		return errors.Join(err, writes.Close())
	}
	s.writer, err = newWriter(ctx, writes, path, s.turn)
	if err != nil {
		return errors.Join(err, writes.Close())
	}
	s.reads, err = sql.Open("sqlite", dsn(path, "query_only(1)"))
	if err != nil {
		return err
	}
	s.reads.SetMaxOpenConns(readers)
	s.reads.SetMaxIdleConns(readers)
	return s.ping(ctx)
}

func dsn(path string, pragmas ...string) string {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path)}
	q := url.Values{"_pragma": append([]string{"busy_timeout(5000)"}, pragmas...)}
	u.RawQuery = q.Encode()
	return u.String()
}

// migrations are applied in the order of their names; the n-th makes version n.
//
//go:embed migrations/*.sql
var migrations embed.FS

// prepare makes the file what this release needs. Of several who open a new one
// the first does it: the change to a write-ahead log waits for nobody.
func (s *Store) prepare(ctx context.Context, db *sql.DB) error {
	leave := s.turn.take(openTime)
	defer leave()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	if err := migrate(ctx, conn); err != nil {
		_, _ = conn.ExecContext(ctx, "ROLLBACK") // if there is something
		return errors.Join(err, conn.Close())
	}
	return conn.Close()
}

func migrate(ctx context.Context, db *sql.Conn) error {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	version, err := versionOf(ctx, db, len(files))
	if err != nil || version == len(files) {
		return err
	}
	if _, err := db.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if version, err = versionOf(ctx, db, len(files)); err != nil { // another may have been faster
		return err
	}
	for _, name := range files[version:] {
		text, err := migrations.ReadFile(name)
		if err != nil {
			return err
		}
		if _, err := db.ExecContext(ctx, string(text)); err != nil {
			return fmt.Errorf("apply %s: %w", name, err)
		}
	}
	_, err = db.ExecContext(ctx, "PRAGMA user_version = "+strconv.Itoa(len(files))+"; COMMIT")
	return err
}

// versionOf answers which migration was the last; store.ErrNewerSchema if it is one
// beyond ours.
func versionOf(ctx context.Context, db *sql.Conn, ours int) (version int, err error) {
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return 0, err
	}
	if version > ours {
		return 0, fmt.Errorf("%w: it is at version %d, this release at %d", store.ErrNewerSchema, version, ours)
	}
	return version, nil
}

// Ping reports whether the database can be read.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.do(func() error { return s.ping(ctx) }); err != nil {
		return fmt.Errorf("ping database: %w", err)
	}
	return nil
}

func (s *Store) ping(ctx context.Context) error {
	var n int
	return s.reads.QueryRowContext(ctx, "SELECT count(*) FROM pragma_user_version").Scan(&n)
}

// Close waits for calls under way and lets go of the file. See store.Store.
func (s *Store) Close(ctx context.Context) error { return s.calls.Close(ctx, s.shut) }

// shut closes what is open, when no call is under way.
func (s *Store) shut() error {
	var errs []error
	if s.reads != nil {
		errs = append(errs, s.reads.Close())
	}
	if s.writer != nil {
		errs = append(errs, s.writer.close())
	}
	return errors.Join(append(errs, s.turn.close(), s.names.release(), s.lock.Close())...)
}
