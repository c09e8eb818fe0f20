package storetest

import (
	"context"
	"errors"
)

// way is how a node's calls get to the database.
type way uint8

const (
	wayOpen way = iota
	wayCut
	wayFrozen
	wayGone
)

// ErrGone is what the calls of a node answer whose process has ended.
var ErrGone = errors.New("node's process has ended")

// Cut stops everything between the node and the database, until Heal. A call waits
// for that, or until its context ends; one that had got there gets no answer.
func (n *MemoryNode) Cut() { n.turn(wayCut) }

// Freeze stops the node's process, as far as the database can see, until Heal. Calls
// that begin meanwhile are made when it goes on, however late that is: those of a
// process that was stopped between its decision to write and the write.
func (n *MemoryNode) Freeze() { n.turn(wayFrozen) }

// Kill ends the node's process: its calls are answered no more, and none arrives. Its
// names are free.
func (n *MemoryNode) Kill() {
	n.turn(wayGone)
	n.letGo()
}

// Heal undoes Cut and Freeze. With late, what was given up on the way arrives now,
// with nobody to hear the answer: it was in some buffer. See SharedMemory.Wait.
func (n *MemoryNode) Heal(late bool) {
	n.db.feed.Lock()
	calls := n.late
	n.late = nil
	healed := n.way != wayGone
	n.db.feed.Unlock()
	if late && healed {
		for _, call := range calls {
			n.db.late.Go(call)
		}
	}
	n.turn(wayOpen)
}

func (n *MemoryNode) turn(to way) {
	n.db.feed.Lock()
	defer n.db.feed.Unlock()
	if n.way == wayGone {
		return
	}
	n.way = to
	close(n.turned)
	n.turned = make(chan struct{})
}

// at is the way now, and what tells of another.
func (n *MemoryNode) at() (way, <-chan struct{}) {
	n.db.feed.Lock()
	defer n.db.feed.Unlock()
	return n.way, n.turned
}

// pass returns when the way is open. A node that is frozen does not look whether its
// context has ended.
func (n *MemoryNode) pass(ctx context.Context) error {
	for {
		way, turned := n.at()
		switch way {
		case wayOpen:
			return nil
		case wayGone:
			return ErrGone
		case wayFrozen:
			<-turned
		case wayCut:
			select {
			case <-turned:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// do makes a call on the node's way to the database.
func (n *MemoryNode) do(ctx context.Context, call func(context.Context) error) error {
	return n.calls.Do(func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		was, _ := n.at()
		if err := n.pass(ctx); err != nil {
			return err
		}
		run := ctx
		if was == wayFrozen { // the request was out before its context was looked at
			run = context.WithoutCancel(ctx)
		}
		if err := call(run); err != nil {
			return err
		}
		return n.pass(ctx) // the answer's way
	})
}

// giveUp leaves a call on a way that is cut.
func (n *MemoryNode) giveUp(call func()) {
	n.db.feed.Lock()
	defer n.db.feed.Unlock()
	if n.way == wayCut {
		n.late = append(n.late, call)
	}
}

// through is do for a call that answers something, and may arrive late.
func through[T any](ctx context.Context, n *MemoryNode, call func(context.Context) (T, error)) (v T, err error) {
	made := false
	err = n.do(ctx, func(ctx context.Context) error {
		made = true
		var err error
		v, err = call(ctx)
		return err
	})
	if err != nil && !made {
		n.giveUp(func() { _, _ = call(context.Background()) })
	}
	if err != nil {
		v = *new(T)
	}
	return v, err
}

// locked is do for a call under the database's lock.
func (n *MemoryNode) locked(ctx context.Context, call func() error) error {
	return n.do(ctx, func(ctx context.Context) error {
		return n.underWay.Do(func() error {
			if err := n.wait(ctx, writing); err != nil {
				return err
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			return call()
		})
	})
}
