package postgres

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

// name is a node's name, held by a session's advisory lock. The session has a
// connection beside the pool, which closes its own when they idle or age; it
// lasts until it is released or lost. That it was lost shows when a name is
// taken the next time, which takes that one anew unless another was faster.
type name struct {
	cfg     *pgx.ConnConfig
	nowhere bool          // there is no way to a session of our own
	turn    chan struct{} // full while somebody uses conn
	conn    *pgx.Conn     // nil until the first name is taken
}

func newName(cfg *pgx.ConnConfig) name {
	cfg = cfg.Copy()
	cfg.RuntimeParams["lock_timeout"], cfg.RuntimeParams["statement_timeout"] = nameTimeout, "0"
	return name{cfg: cfg, turn: make(chan struct{}, 1)}
}

// take makes node's name in a schema this store's alone. store.ErrNameInUse if
// another session has it.
func (n *name) take(ctx context.Context, node, schema string) error {
	if n.nowhere {
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
	_, err := n.conn.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended($1, $2))", node+"/"+schema, lockClass)
	if locked(err) {
		return store.ErrNameInUse
	}
	return err
}

func (n *name) connect(ctx context.Context) error {
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

// release lets go of what was taken. Nobody may be taking anything.
func (n *name) release() error {
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
