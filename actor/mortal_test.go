package actor_test

import (
	"context"
	"errors"
	"strings"
	"sync"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

var errDead = errors.New("the node is dead")

// doom is where in an append a node dies.
type doom int

const (
	spared      doom = iota
	afterAccept      // the text was taken, and never gets to the store
	afterCommit      // the store has it, and nobody hears of that
)

// estate is a database whose nodes die. Writes may be late, as in tardy.
type estate struct {
	*tardy

	mu    sync.Mutex // guards below
	lapse map[string]bool
}

// lapsed says whether the lease of a node is over.
func (e *estate) lapsed(node string, is bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lapse[node] = is
}

// takeOver is plane.Takeover's, under the lock of the rows.
func (e *estate) takeOver(token string, claim plane.Claim) (row plane.Row, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Edit(claim.ID, func(r *storetest.Row) {
		origins := plane.Row{Token: r.Token}.Origins()
		host, _, _ := strings.Cut(strings.TrimPrefix(r.Token, "n/"), "/")
		switch {
		case r.Status.Ended():
			err = plane.ErrClosed
		case r.Token == plane.MakeToken(claim.Node, r.Epoch, origins) && r.Token != token:
		case r.Token != token:
			err = plane.ErrLostRace
		case !e.lapse["n/"+host]:
			err = plane.ErrHeld
		default:
			r.Epoch++
			r.Token, r.Producer = plane.MakeToken(claim.Node, r.Epoch, origins.Begin(r.Seq)), claim.Producer
		}
		row = plane.Row{Seq: r.Seq, Status: r.Status, Cancel: r.Cancel, Token: r.Token, Epoch: r.Epoch, Producer: r.Producer}
	})
	if err != nil {
		return plane.Row{}, err
	}
	return row, nil
}

// mortal is the estate as one node sees it, until it dies.
type mortal struct {
	*estate
	died func()

	mu   sync.Mutex // guards below
	doom doom       // at the next append
	dead bool
}

func (m *mortal) isDead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

// die makes nothing of the node reach the store any more.
func (m *mortal) die() {
	m.mu.Lock()
	was := m.dead
	m.dead = true
	m.mu.Unlock()
	if !was {
		m.died()
	}
}

func (m *mortal) doomed(d doom) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.doom = d
}

func (m *mortal) write(ctx context.Context, do func(context.Context) (plane.Row, error)) (plane.Row, error) {
	if m.isDead() {
		return plane.Row{}, errDead
	}
	row, err := m.tardy.write(ctx, do)
	if m.isDead() {
		return plane.Row{}, errDead
	}
	return row, err
}

func (m *mortal) Append(ctx context.Context, slice plane.Slice) (plane.Row, error) {
	m.mu.Lock()
	doom := m.doom
	m.doom = spared
	m.mu.Unlock()
	if doom == afterAccept {
		m.die()
	}
	return m.write(ctx, func(ctx context.Context) (plane.Row, error) {
		row, err := m.Memory.Append(ctx, slice)
		if doom == afterCommit {
			m.die()
		}
		return row, err
	})
}

func (m *mortal) Seal(ctx context.Context, seal plane.Seal) (plane.Row, error) {
	return m.write(ctx, func(ctx context.Context) (plane.Row, error) { return m.Memory.Seal(ctx, seal) })
}

func (m *mortal) Adopt(ctx context.Context, id, mark, node string) (plane.Row, error) {
	return m.write(ctx, func(ctx context.Context) (plane.Row, error) { return m.Memory.Adopt(ctx, id, mark, node) })
}

func (m *mortal) TakeOver(ctx context.Context, token string, claim plane.Claim) (plane.Row, error) {
	return m.write(ctx, func(context.Context) (plane.Row, error) { return m.takeOver(token, claim) })
}

func (m *mortal) Read(ctx context.Context, id string) (plane.Row, error) {
	if m.isDead() {
		return plane.Row{}, errDead
	}
	return m.Memory.Read(ctx, id)
}
