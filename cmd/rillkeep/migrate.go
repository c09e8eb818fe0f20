package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rillkeep.dev/rillkeep/store/postgres"
)

type migrateCmd struct {
	Database string        `help:"postgres:// URL of the database." env:"RILLKEEP_DATABASE" required:"" placeholder:"URL"`
	Timeout  time.Duration `help:"Give up after this, by default ${default}; nothing is changed then." default:"10m" placeholder:"DURATION"`
}

// Help is printed below the flags.
func (migrateCmd) Help() string {
	return `A node does the same when it starts. Of several that migrate at once one does, and
the others wait for it. What a later release has migrated is left alone, and is a
failure.

Example:
  rillkeep migrate --database postgres://user:password@127.0.0.1:5432/app`
}

// Validate is called before Run.
func (m migrateCmd) Validate() error {
	if m.Timeout <= 0 {
		return errors.New("--timeout is a time of more than 0")
	}
	return nil
}

// Run migrates, and says what the tables are now.
func (m migrateCmd) Run(ctx context.Context, con *console) error {
	ctx, cancel := context.WithTimeout(ctx, m.Timeout)
	defer cancel()
	done, err := postgres.Migrate(ctx, m.Database, postgres.Config{})
	if err != nil {
		return err
	}
	text := fmt.Sprintf("schema %s is at version %d", done.Schema, done.To)
	if done.From != done.To {
		text += fmt.Sprintf(", and was at %d", done.From)
	}
	return write(con.out, text+"\n")
}
