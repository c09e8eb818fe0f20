package node

import (
	"context"
	"time"

	"rillkeep.dev/rillkeep/ring"
)

// What keeps a node whose lease comes and goes from going in and out of the ring as
// often.
const (
	firstAway  = 5 * time.Second // with its lease, after the second loss in a row
	maxAway    = time.Minute     // after one that follows many
	steadyTime = 2 * time.Minute // in the ring; then its losses are forgotten
)

// followLease keeps the node's place in the ring to its lease: streams are opened where
// they can be written. What it has live stays, as the store may be back any moment.
// While that is down for all, all wait, and the ring is as it was.
func (n *Node) followLease() {
	p := presence{active: true}
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-n.turned:
		case <-again.C:
		case <-n.base.Done():
			return
		}
		if n.actors.Draining() { // it does not come back
			return
		}
		next, wait := p.look(n.lease.Held(), time.Now())
		switch next {
		case ring.Waiting:
			n.log.Warn("the lease on the store is lost: new streams are the other nodes'")
			if err := n.setState(next); err != nil { // it takes place nonetheless
				n.log.Debug("the other nodes may not know it yet", "error", err)
			}
		case ring.Active:
			if err := n.setState(next); err != nil {
				n.log.Warn("could not become active again; trying again", "error", err)
				wait = p.stay(time.Now())
				break
			}
			n.log.Info("the lease on the store is held: new streams are this node's again")
		}
		if wait > 0 {
			again.Reset(wait)
		}
	}
}

// maxFenced is how many streams are noted whose owners are to be told.
const maxFenced = 1024

// tellOwners tells whoever has a stream, by its row, that this node had until now. As a
// rule it knows that. Not where the store went back behind a hand-over: then the row is
// the former owner's, and nobody's in fact.
func (n *Node) tellOwners() {
	for {
		select {
		case id := <-n.fenced:
			ctx, cancel := context.WithTimeout(n.base, startTimeout)
			if err := n.router.Tell(ctx, id); err != nil {
				n.log.Debug("told the owner of a stream", "streamId", id, "error", err)
			}
			cancel()
		case <-n.base.Done():
			return
		}
	}
}

// setState tells the other nodes of another state.
func (n *Node) setState(s ring.State) error {
	ctx, cancel := context.WithTimeout(n.base, startTimeout)
	defer cancel()
	return n.member.ring.SetState(ctx, s)
}

// presence is whether the node owns streams by the ring.
type presence struct {
	active bool
	away   time.Duration // how long it stays away once its lease is held
	back   time.Time     // when it came back last; zero if it never was away
	due    time.Time     // when it comes back; zero while its lease is not held
}

// look says what follows from whether the lease is held: another state, 0 if there is
// none, and how long until it is to be looked at again, 0 if the lease will tell.
func (p *presence) look(held bool, now time.Time) (next ring.State, wait time.Duration) {
	switch {
	case held == p.active:
		p.due = time.Time{}
		return 0, 0
	case !held:
		p.active = false
		if p.back.IsZero() || now.Sub(p.back) > steadyTime {
			p.away = 0
		} else {
			p.away = min(max(2*p.away, firstAway), maxAway)
		}
		return ring.Waiting, 0
	case p.due.IsZero():
		p.due = now.Add(p.away)
	}
	if wait := p.due.Sub(now); wait > 0 {
		return 0, wait
	}
	p.active, p.back, p.due = true, now, time.Time{}
	return ring.Active, 0
}

// stay undoes a return that went wrong, until a while from now.
func (p *presence) stay(now time.Time) (wait time.Duration) {
	p.active, p.due = false, now.Add(firstAway)
	return firstAway
}
