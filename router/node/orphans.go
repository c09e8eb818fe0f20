package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

const (
	// orphanWait is how long a starting node waits for its orphans to be sealed.
	// The rest is done while it serves.
	orphanWait = 3 * time.Second

	// orphanTime bounds one pass over the orphans. What it left is the next one's.
	orphanTime = time.Minute
)

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
