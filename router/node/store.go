package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
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

// embedded is the name of the one node that an embedded store can have: its rows
// are its own whatever the process was called that made them.
const embedded = "embedded"

// reachStore opens the store. A database that is not there, or lets nobody in, is
// mended by others than this node, which waits until it is or ctx ends: one that
// gave up would only be started again.
func (n *Node) reachStore(ctx context.Context, cfg Config) (store.Store, error) {
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

// takeName makes the node's name its own, where its store has several nodes. A
// node without its name serves nothing: what it had live, another of that name
// could take for its orphans (L).
func (n *Node) takeName(ctx context.Context, name string) error {
	named, ok := n.store.(store.Named)
	for pause := firstPause; ok; pause = min(2*pause, maxPause) {
		call, cancel := context.WithTimeout(ctx, startTimeout)
		err := named.TakeName(call, name)
		cancel()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, store.ErrNameInUse):
			return fmt.Errorf("%w: give each node of a database a name of its own", err)
		case errors.Is(err, plane.ErrConfig): // no way to a session that holds the name
			return err
		}
		if err := n.tryAgain(ctx, "cannot take the node's name; trying again", pause, err); err != nil {
			return err
		}
	}
	return nil
}

// openStore reaches the store that cfg names.
func openStore(ctx context.Context, cfg Config) (store.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	switch {
	case cfg.Database == "" && (cfg.Retention != 0 || cfg.LeaseTTL != 0 || cfg.Grace != 0):
		return nil, fmt.Errorf("%w: the embedded store has no retention and no leases: they need a postgres:// database", plane.ErrConfig)
	case cfg.Database == "" && cfg.DirectDatabase != "":
		return nil, fmt.Errorf("%w: a direct database without a database", plane.ErrConfig)
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
	case cfg.inPostgres():
		s, err := postgres.Open(ctx, cfg.Database, postgres.Config{DirectURL: cfg.DirectDatabase})
		if err != nil {
			return nil, err
		}
		return s, nil
	default:
		return nil, fmt.Errorf("%w: the database is a postgres:// URL, or empty for the embedded store", plane.ErrConfig)
	}
}

func (cfg Config) inPostgres() bool {
	return strings.HasPrefix(cfg.Database, "postgres://") || strings.HasPrefix(cfg.Database, "postgresql://")
}

// openTables reaches an application's tables. What they can't honour is refused.
func openTables(ctx context.Context, cfg Config) (store.Store, error) {
	switch {
	case !cfg.inPostgres():
		return nil, fmt.Errorf("%w: tables of the application need its database, a postgres:// URL", plane.ErrConfig)
	case cfg.Retention != 0:
		return nil, fmt.Errorf("%w: an application's tables have no retention: messages are its own to delete", plane.ErrConfig)
	case cfg.Tables.Host == "" && (cfg.LeaseTTL != 0 || cfg.Grace != 0):
		return nil, fmt.Errorf("%w: leases need a column for host", plane.ErrConfig)
	case cfg.Name != "" && cfg.Tables.Host == "":
		return nil, fmt.Errorf("%w: a node's name needs a column for host", plane.ErrConfig)
	}
	s, err := mapped.Open(ctx, cfg.Database, cfg.DirectDatabase, cfg.Tables)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// name is the node's part of its owner tokens.
func (cfg Config) name(addr net.Addr) (string, error) {
	switch {
	case cfg.Database == "":
		return embedded, nil
	case strings.ContainsRune(cfg.Name, '/'):
		return "", fmt.Errorf("%w: a node's name has no slash: %q", plane.ErrConfig, cfg.Name)
	case cfg.Name != "":
		return cfg.Name, nil
	}
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	return strings.ReplaceAll(host, "/", "-") + "-" + addr.String(), nil
}

const (
	// orphanWait is how long a starting node waits for its orphans to be sealed.
	// The rest is done while it serves.
	orphanWait = 3 * time.Second

	// orphanTime bounds one pass over the orphans. What it left is the next one's.
	orphanTime = time.Minute
)

// sealOrphans seals what an earlier run of this node left streaming: nobody else
// will (L). A row that can't be sealed now is no reason not to serve the others
// (I).
func (n *Node) sealOrphans(ctx context.Context, name, incarnation string) {
	done := make(chan struct{})
	n.serving.Go(func() error {
		defer close(done)
		more, err := n.interrupt(name, incarnation)
		for more {
			more, err = n.interrupt(name, incarnation)
		}
		if err != nil && n.base.Err() == nil {
			n.log.Error("could not seal all that an earlier run left streaming; the next start tries again", "error", err)
		}
		return nil
	})
	wait, cancel := context.WithTimeout(ctx, orphanWait)
	defer cancel()
	select {
	case <-done:
	case <-wait.Done():
	}
}

// interrupt is one pass over the orphans. more says that it had no time for all.
func (n *Node) interrupt(name, incarnation string) (more bool, err error) {
	ctx, cancel := context.WithTimeout(n.base, orphanTime)
	defer cancel()
	orphans, err := n.store.Interrupt(ctx, name, incarnation)
	if orphans > 0 {
		n.log.Info("sealed what an earlier run left streaming", "streams", orphans)
	}
	return err != nil && ctx.Err() != nil && n.base.Err() == nil, err
}
