package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

// nameTimeout is the lock_timeout of taking a name: a node that is started again
// may be faster than the end of the session before.
const nameTimeout = "1s"

// releaseTimeout bounds the goodbye to the server.
const releaseTimeout = 5 * time.Second

// lockClass tells the advisory locks of names from others' of one number. It is
// "rill" in ASCII.
const lockClass = 0x72696c6c

// Name is a node's name, held by a session's advisory lock. The session has a
// connection beside the pool, which closes its own when they idle or age; it
// lasts until it is released or lost. That it was lost shows when a name is
// taken the next time, which takes that one anew unless another was faster.
type Name struct {
	cfg  *pgx.ConnConfig // nil if there is no way to a session of one's own
	turn chan struct{}   // full while somebody uses conn
	conn *pgx.Conn       // nil until the first name is taken
}

// NewName returns a name that is not taken yet, by way of connections like cfg's.
// nil says that there is no way to a session of one's own: then none is taken.
func NewName(cfg *pgx.ConnConfig) Name {
	if cfg != nil {
		cfg = cfg.Copy()
		cfg.RuntimeParams["lock_timeout"], cfg.RuntimeParams["statement_timeout"] = nameTimeout, "0"
	}
	return Name{cfg: cfg, turn: make(chan struct{}, 1)}
}

// Take makes node's name in a place, a schema or what else its rows are in, this
// store's alone. store.ErrNameInUse if another session has it.
func (n *Name) Take(ctx context.Context, node, place string) error {
	if n.cfg == nil {
		return fmt.Errorf("%w: the database's URL leads to a pooler: a node's name needs a direct URL as well", plane.ErrConfig)
	}
	select {
	case n.turn <- struct{}{}:
		defer func() { <-n.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := n.connect(ctx); err != nil {
		return err
	}
	// A session may take a lock many times; it has it until it ends.
	_, err := n.conn.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended($1, $2))", node+"/"+place, lockClass)
	if Locked(err) {
		return store.ErrNameInUse
	}
	return err
}

func (n *Name) connect(ctx context.Context) error {
	if n.conn != nil {
		if err := n.conn.Ping(ctx); err == nil || !n.conn.IsClosed() {
			return err
		}
		n.conn = nil // it is lost
	}
	conn, err := pgx.ConnectConfig(ctx, n.cfg)
	if err != nil {
		return err
	}
	// Servers before 14 have no such setting.
	_, err = conn.Exec(ctx, "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'")
	if err != nil {
		_ = conn.Close(ctx)
		return err
	}
	n.conn = conn
	return nil
}

// Release lets go of what was taken. Nobody may be taking anything.
func (n *Name) Release() error {
	if n.conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	if err := n.conn.Close(ctx); err != nil {
		return fmt.Errorf("release the node's name: %w", err)
	}
	return nil
}
