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

// LockClass tells our advisory locks from others'. It is "rill" in ASCII. The locks
// of names are of one number, in which it is mixed in; those of migrations of two,
// of which it is the first.
const LockClass = 0x72696c6c

// MaxName is the most bytes of a name that PostgreSQL does not cut short.
const MaxName = 63

// Name is a node's name, held by a session's advisory lock. The session has a
// connection beside the pool, which closes its own when they idle or age; it
// lasts until it is released or lost. That it was lost shows when a name is
// taken or held the next time, which takes that one anew unless another was
// faster.
type Name struct {
	cfg   *pgx.ConnConfig // nil if there is no way to a session of one's own
	turn  chan struct{}   // full while somebody uses what follows
	conn  *pgx.Conn       // nil until the first name is taken
	taken string          // the last name that was, with its place; "" if none
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
	return n.alone(ctx, func() error {
		if _, err := n.connect(ctx); err != nil {
			return err
		}
		return n.lock(ctx, node+"/"+place)
	})
}

// Hold makes sure of the name that was taken last: where its session was lost it
// is taken anew. store.ErrNameInUse if another session has it by now. It does
// nothing where none was taken.
func (n *Name) Hold(ctx context.Context) error {
	if n.cfg == nil {
		return nil
	}
	return n.alone(ctx, func() error {
		if n.taken == "" {
			return nil
		}
		if fresh, err := n.connect(ctx); err != nil || !fresh {
			return err
		}
		return n.lock(ctx, n.taken)
	})
}

// alone does something while nobody else uses the session.
func (n *Name) alone(ctx context.Context, do func() error) error {
	select {
	case n.turn <- struct{}{}:
		defer func() { <-n.turn }()
		return do()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lock takes a name. A session may take a lock many times; it has it until it
// ends. One that could not have again what was taken before is closed, so that
// the next Hold does not think that it has.
func (n *Name) lock(ctx context.Context, name string) error {
	_, err := n.conn.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended($1, $2))", name, LockClass)
	switch {
	case err == nil:
		n.taken = name
		return nil
	case n.taken == name && !n.conn.IsClosed():
		_ = n.conn.Close(ctx)
	}
	if Locked(err) {
		return store.ErrNameInUse
	}
	return err
}

// connect makes sure of the session. fresh says that it is a new one, which holds
// nothing.
func (n *Name) connect(ctx context.Context) (fresh bool, err error) {
	if n.conn != nil {
		if err := n.conn.Ping(ctx); err == nil || !n.conn.IsClosed() {
			return false, err
		}
		n.conn = nil // it is lost
	}
	conn, err := pgx.ConnectConfig(ctx, n.cfg)
	if err != nil {
		return false, err
	}
	// Servers before 14 have no such setting.
	_, err = conn.Exec(ctx, "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'")
	if err != nil {
		_ = conn.Close(ctx)
		return false, err
	}
	n.conn = conn
	return true, nil
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
