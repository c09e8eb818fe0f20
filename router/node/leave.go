package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/ring"
)

const (
	// noticeTime is how long it takes the others to see that a node is on its way
	// out: from then on they open streams elsewhere.
	noticeTime = 1500 * time.Millisecond

	// movesAtOnce is how many streams are handed over at once; one whose row others
	// have locked does not count for longer than moveTurn.
	movesAtOnce = 32
	moveTurn    = 2 * time.Second

	// maxPasses bounds the looks for streams to hand over: one that could not be, for
	// its store, is tried again.
	maxPasses = 3

	// adoptTime bounds the wait for one adoption by another node, which loads the text.
	// One that takes longer goes on: nobody else gets the stream then.
	adoptTime = 5 * time.Second

	// backTime bounds the return of one stream that nobody takes. What it is too
	// short for is the drain's.
	backTime = 2 * time.Second

	// sealTime is what handing over leaves of a drain's time, half of it at most, to
	// seal what could not be handed over.
	sealTime = 5 * time.Second
)

// handOver gives every live stream to the member that the ring has for it without
// this node, so that producers and readers go on there. What finds no taker is sealed
// interrupted at once, with all that was produced; what finds no time stays for the
// drain to seal.
func (n *Node) handOver(ctx context.Context) {
	if n.member == nil || n.member.isAlone() {
		return
	}
	if err := n.actors.Shut(ctx); err != nil {
		n.log.Warn("opens are still being decided", "error", err)
	}
	if err := n.member.ring.SetState(ctx, ring.Draining); err != nil {
		n.log.Warn("could not tell the other nodes of the drain", "error", err)
	}
	select {
	case <-time.After(noticeTime):
	case <-ctx.Done():
	}
	ctx, cancel := sealing(ctx)
	defer cancel()
	moved, left := 0, 0
	for range maxPasses {
		ids := n.live()
		if len(ids) == 0 || ctx.Err() != nil {
			break
		}
		errs := n.moveAll(ctx, ids)
		left = 0
		for i, err := range errs {
			switch {
			case err == nil:
				moved++
			case errors.Is(err, plane.ErrClosed), errors.Is(err, plane.ErrCancelled): // it has ended, which is as good
			default:
				left++
				n.log.Warn("could not hand a stream over", "streamId", ids[i], "error", err)
			}
		}
		if left == len(ids) {
			break
		}
	}
	n.log.Info("handed over", "streams", moved, "left", left)
}

// isAlone reports whether there is no other member to hand anything to, or to tell.
func (m *member) isAlone() bool { return len(m.ring.View().Members()) <= 1 }

// sealing returns a context for what comes before the seals of a drain.
func sealing(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end.Add(-min(sealTime, time.Until(end)/2)))
}

// moveAll hands streams over, and answers what went wrong with each.
func (n *Node) moveAll(ctx context.Context, ids []string) []error {
	var moves sync.WaitGroup
	errs, turns := make([]error, len(ids)), make(chan struct{}, movesAtOnce)
	for i, id := range ids {
		turns <- struct{}{}
		end := sync.OnceFunc(func() { <-turns })
		late := time.AfterFunc(moveTurn, end)
		moves.Go(func() {
			defer end()
			defer late.Stop()
			errs[i] = n.move(ctx, id)
		})
	}
	moves.Wait()
	return errs
}

// live are the streams that are to be handed over.
func (n *Node) live() []string {
	var ids []string
	for _, s := range n.actors.Streams() {
		if s.Refusal() == nil && !n.router.Generates(s.ID()) {
			ids = append(ids, s.ID())
		}
	}
	return ids
}

// finishGenerations lets the model calls of this node end, which no other node can take:
// as long as there is time for readers to hear of the end of what is left.
func (n *Node) finishGenerations(ctx context.Context) {
	if err := n.actors.Shut(ctx); err != nil {
		n.log.Warn("opens are still being decided", "error", err)
	}
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-min(endGrace+leaveTime, time.Until(end)/2)))
		defer cancel()
	}
	n.router.AwaitGenerations(ctx)
}

// errNoTaker says that no other node takes a stream.
var errNoTaker = errors.New("no other node takes it")

// move hands one stream over.
func (n *Node) move(ctx context.Context, id string) error {
	takers := n.member.Takers(id)
	if len(takers) == 0 {
		return errNoTaker
	}
	if err := n.actors.HandOver(ctx, id); err != nil {
		return err
	}
	errs := []error{errNoTaker}
	for _, to := range takers {
		err := n.giveTo(ctx, to, id)
		if err == nil {
			n.actors.Taken(id)
			n.log.Info("stream handed over", "streamId", id, "to", to)
			return nil
		}
		errs = append(errs, err)
	}
	return n.takeBack(ctx, id, errors.Join(errs...))
}

// takeBack sees to a stream that was given up, and that, as far as was heard, nobody
// has taken. If that is so its row is sealed; one that an adoption was faster to have
// is where that is, whose answer was lost.
func (n *Node) takeBack(ctx context.Context, id string, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backTime)
	defer cancel()
	switch taken, err := n.actors.TakeBack(ctx, id); {
	case err != nil:
		return errors.Join(why, err)
	case !taken:
		return fmt.Errorf("%w; it is sealed interrupted", why)
	default:
		n.log.Info("stream handed over, without an answer", "streamId", id, "error", why)
		return nil
	}
}

// giveTo has a member adopt a stream.
func (n *Node) giveTo(ctx context.Context, to, id string) error {
	ctx, cancel := context.WithTimeout(ctx, adoptTime)
	defer cancel()
	return n.router.AskToAdopt(ctx, to, id)
}

// leave takes the node out of the cluster.
func (n *Node) leave(ctx context.Context) {
	if n.member == nil || n.member.isAlone() {
		return
	}
	if err := n.member.ring.Leave(ctx); err != nil {
		n.log.Warn("could not leave the cluster; the others will notice", "error", err)
	}
}
