package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

// supersedeTime bounds what a starting node does about the leases of its earlier runs.
const supersedeTime = 3 * time.Second

// takeName makes the node's name its own, where its store has several nodes. A
// node without its name serves nothing: what it had live, another of that name
// could take for what a dead one left (O).
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

// supersede ends the leases of earlier runs of this node, which are dead: nobody has
// to wait for them to run out. What they left streaming is its producers' to take
// over from now on, and the sweeper's after the grace (L).
func (n *Node) supersede(ctx context.Context, name, incarnation string) error {
	named, ok := n.store.(store.Named)
	if !ok {
		return nil
	}
	call, cancel := context.WithTimeout(ctx, supersedeTime)
	defer cancel()
	err := named.Supersede(call, name, incarnation)
	switch {
	case errors.Is(err, store.ErrNameInUse): // it was lost, just now
		return err
	case err != nil:
		n.log.Warn("could not end the leases of earlier runs; they run out by themselves", "error", err)
	}
	return nil
}
