package store

import (
	"context"
	"errors"
	"time"
)

// ErrNoLease says that the node has no lease on the database that it may trust,
// and so writes nothing. Nothing was asked of the database; a later call finds
// the lease renewed.
var ErrNoLease = errors.New("node holds no lease on the database")

// Node is one run of a node.
type Node struct {
	Name        string // without a slash, as Incarnation: owner tokens are Name/Incarnation/epoch
	Incarnation string // of this run alone
	HTTPAddr    string // host:port; "" if it has none
	GossipAddr  string // host:port; "" if it has none
}

// Named is a store whose tables are for several nodes, each of a name of its own.
type Named interface {
	// TakeName makes node's name this store's alone until it is closed; to take it
	// again does nothing. ErrNameInUse if another has it, plane.ErrConfig if no name
	// can be held by way of the store's URL.
	TakeName(ctx context.Context, node string) error

	// Supersede takes node's name, which proves that its runs other than incarnation
	// are dead, and ends those of their leases that last: what they left streaming can
	// be taken over from then on, and is swept after the grace. One that was over
	// already is so since then, however often a node is started again.
	Supersede(ctx context.Context, node, incarnation string) error
}

// Shared is what a database that several nodes share does for them, beside Store.
// A lease says that a node runs; all times are by the database's clock. Methods
// are safe for concurrent use and end when their context does.
type Shared interface {
	// Renew makes the node's lease last ttl from now on, and answers since when it has
	// had no gap. Another time than before says that it had one, in which others may
	// have taken the node for gone: the node need not have noticed, since its clock
	// stands still while its machine is suspended. No checkpoint can keep a connection
	// from it. It fails with ErrNameInUse where another has the name that was taken.
	Renew(ctx context.Context, node Node, ttl time.Duration) (since time.Time, err error)

	// Release gives up the node's lease; that there is none is no error.
	Release(ctx context.Context, node Node) error

	// Nodes answers those whose lease lasts, in the order of their names and
	// incarnations.
	Nodes(ctx context.Context) ([]Node, error)

	// Sweep seals orphans as interrupted, with the text that is durable: streaming
	// rows whose owner's lease ran out longer than grace ago, or that have not
	// changed for grace and whose owner has no lease, or that were disowned longer
	// than grace ago; where rows don't say when they
	// changed, it is since a sweep noticed the lack that counts. It answers how many:
	// none unless node, who asks, has a lease that had no gap for its time. When the
	// database's clock steps forward, all leases are over until they are renewed.
	// Rows that are locked are left for the next time, without an error; those
	// that could not be sealed make the error. A text with a hole ends
	// there, with an error that says so; chunks from beyond it stay. Several nodes
	// may sweep at once: they share the work.
	Sweep(ctx context.Context, node Node, grace time.Duration) (int, error)

	// DeleteEnded deletes streams that ended longer than age ago, and answers how
	// many. Rows that are locked are left, without an error; those that could not
	// be deleted make the error. An id that is used again gets a higher epoch.
	// errors.ErrUnsupported where streams are the application's to delete.
	DeleteEnded(ctx context.Context, age time.Duration) (int, error)
}
