package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres"
	"rillkeep.dev/rillkeep/store/postgres/mapped"
	"rillkeep.dev/rillkeep/store/sqlite"
)

// startTimeout bounds one try to reach the store, which may have to wait for
// another node's migration.
const startTimeout = 30 * time.Second

// The pauses between the tries to reach a database.
const (
	firstPause = 250 * time.Millisecond
	maxPause   = 10 * time.Second
)

// embedded is the name of a node of an embedded store that has none: as a rule it
// is the only one, and its rows are its own whatever its address was.
const embedded = "embedded"

// reachStore opens the store. A database that is not there, or lets nobody in, is
// mended by others than this node, which waits until it is or ctx ends: one that
// gave up would only be started again.
func (n *Node) reachStore(ctx context.Context, cfg Config) (store.Store, error) {
	if cfg.Store != nil {
		return cfg.Store, nil
	}
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		s, err := openStore(ctx, cfg)
		switch {
		case err == nil:
			n.advise(ctx, s)
			return s, nil
		case cfg.Database == "", errors.Is(err, plane.ErrConfig), errors.Is(err, store.ErrNewerSchema):
			return nil, err
		}
		if err := n.tryAgain(ctx, "cannot reach the database; trying again", pause, err); err != nil {
			return nil, err
		}
	}
}

// adviceTime bounds the look at what an operator should know.
const adviceTime = 5 * time.Second

// advise logs what an operator should know of the database.
func (n *Node) advise(ctx context.Context, s store.Store) {
	adviser, ok := s.(interface {
		Advice(ctx context.Context) ([]string, error)
	})
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, adviceTime)
	defer cancel()
	advice, err := adviser.Advice(ctx)
	for _, text := range advice {
		n.log.Warn(text)
	}
	if err != nil {
		n.log.Warn("could not look at the database's settings and rows", "error", err)
	}
}

// tryAgain says why and waits for about pause. Its error is that ctx has ended.
func (n *Node) tryAgain(ctx context.Context, what string, pause time.Duration, why error) error {
	wait := pause/2 + mathrand.N(pause/2)
	n.log.Warn(what, "in", wait.Round(time.Millisecond).String(), "error", why)
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ctx.Err(), why)
	}
}

// openStore reaches the store that cfg names.
func openStore(ctx context.Context, cfg Config) (store.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	switch {
	case cfg.Tables != (mapped.Tables{}):
		return openTables(ctx, cfg)
	case cfg.Database == "":
		dir := cmp.Or(cfg.Data, DefaultData)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make data folder: %w", err)
		}
		s, err := sqlite.Open(ctx, filepath.Join(dir, "rillkeep.db"), sqlite.Config{})
		if err != nil {
			return nil, err
		}
		return s, nil
	default:
		s, err := postgres.Open(ctx, cfg.Database, postgres.Config{DirectURL: cfg.DirectDatabase})
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

// openTables reaches an application's tables.
func openTables(ctx context.Context, cfg Config) (store.Store, error) {
	s, err := mapped.Open(ctx, cfg.Database, cfg.DirectDatabase, cfg.Tables)
	if err != nil {
		return nil, err
	}
	return s, nil
}
