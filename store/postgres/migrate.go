package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/pg"
)

// migrations are applied in the order of their names; the n-th makes version n.
//
//go:embed migrations/*.sql
var migrations embed.FS

// Migration is what bringing the tables up to this release came to.
type Migration struct {
	Schema   string
	From, To int // versions; From is 0 where there were no tables
}

// Migrate brings the tables of a database up to this release, as Open does, and
// does no more.
func Migrate(ctx context.Context, url string, cfg Config) (Migration, error) {
	s, done, err := openMigrated(ctx, url, cfg)
	if err != nil {
		return Migration{}, err
	}
	return done, s.Close(ctx)
}

// migrate brings the schema up to this release in one transaction. Of several
// nodes that start at once, one does and the others wait. Where nothing is to be
// done nothing is asked for but reading, so that a role without the right to
// create may serve tables that another made.
func (s *Store) migrate(ctx context.Context) (done Migration, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0")
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1, hashtext($2))", pg.LockClass, s.schema)
		if err != nil {
			return err
		}
		version, err := s.version(ctx, tx)
		if err != nil {
			return err
		}
		files, err := fs.Glob(migrations, "migrations/*.sql")
		if err != nil {
			return err
		}
		if version > len(files) {
			return fmt.Errorf("%w: it is at version %d, this release at %d", store.ErrNewerSchema, version, len(files))
		}
		for n, file := range files[version:] {
			if err := s.apply(ctx, tx, file, version+n+1); err != nil {
				return err
			}
		}
		done = Migration{Schema: s.schema, From: version, To: len(files)}
		return nil
	})
	return done, err
}

// version answers how many migrations the schema has had, and makes it if it
// is not there.
func (s *Store) version(ctx context.Context, tx pgx.Tx) (version int, err error) {
	var schema, table bool
	err = tx.QueryRow(ctx, "SELECT to_regnamespace($1) IS NOT NULL, to_regclass($2) IS NOT NULL",
		pgx.Identifier{s.schema}.Sanitize(), pgx.Identifier{s.schema, "versions"}.Sanitize()).Scan(&schema, &table)
	if err != nil {
		return 0, err
	}
	if !schema {
		if _, err := tx.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{s.schema}.Sanitize()); err != nil {
			return 0, err
		}
	}
	if !table {
		_, err := tx.Exec(ctx, s.sql(`CREATE TABLE rillkeep.versions (
			version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())`))
		return 0, err
	}
	err = tx.QueryRow(ctx, s.sql("SELECT coalesce(max(version), 0) FROM rillkeep.versions")).Scan(&version)
	return version, err
}

func (s *Store) apply(ctx context.Context, tx pgx.Tx, file string, version int) error {
	text, err := migrations.ReadFile(file)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, s.sql(string(text))); err != nil {
		return fmt.Errorf("apply %s: %w", file, err)
	}
	_, err = tx.Exec(ctx, s.sql("INSERT INTO rillkeep.versions (version) VALUES ($1)"), version)
	return err
}
