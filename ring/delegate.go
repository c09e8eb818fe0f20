package ring

import (
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/memberlist"
)

// delegate is what memberlist calls. Most of it runs under memberlist's lock, and
// none of it calls back.
type delegate struct {
	settings Settings
	meta     atomic.Pointer[[]byte]
	roster   *roster
	refused  *refusals
}

var (
	_ memberlist.Delegate         = (*delegate)(nil)
	_ memberlist.EventDelegate    = (*delegate)(nil)
	_ memberlist.AliveDelegate    = (*delegate)(nil)
	_ memberlist.MergeDelegate    = (*delegate)(nil)
	_ memberlist.ConflictDelegate = (*delegate)(nil)
)

// NodeMeta answers what this node says of itself; its size was checked.
func (d *delegate) NodeMeta(int) []byte { return *d.meta.Load() }

func (d *delegate) NotifyMsg([]byte)                {}
func (d *delegate) GetBroadcasts(_, _ int) [][]byte { return nil }
func (d *delegate) LocalState(bool) []byte          { return nil }
func (d *delegate) MergeRemoteState([]byte, bool)   {}

// NotifyAlive keeps out who can't be in one ring with us, by whatever way it comes.
func (d *delegate) NotifyAlive(n *memberlist.Node) error {
	err := d.check(n)
	if err != nil {
		d.refused.note(err)
	}
	return err
}

func (d *delegate) check(n *memberlist.Node) error {
	rec, meta, err := describe(n)
	if err != nil {
		return err
	}
	return meta.check(rec.Name, d.settings)
}

// NotifyMerge refuses to join a cluster that has other settings, and hears of
// other processes of this node's name, even of those that are under suspicion.
func (d *delegate) NotifyMerge(peers []*memberlist.Node) error {
	for _, n := range peers {
		if n.State == memberlist.StateAlive || n.State == memberlist.StateSuspect {
			if err := d.check(n); err != nil {
				d.refused.note(err)
				return err
			}
		}
		if rec, _, err := describe(n); err == nil && n.State != memberlist.StateLeft {
			d.roster.hear(rec)
		}
	}
	return nil
}

// NotifyJoin takes a member in.
func (d *delegate) NotifyJoin(n *memberlist.Node) { d.NotifyUpdate(n) }

// NotifyUpdate takes in what a member says of itself.
func (d *delegate) NotifyUpdate(n *memberlist.Node) {
	if rec, _, err := describe(n); err == nil {
		d.roster.put(rec)
	}
}

// NotifyLeave takes a member out; memberlist doesn't say whether it left or died.
func (d *delegate) NotifyLeave(n *memberlist.Node) { d.roster.drop(n.Name) }

// NotifyConflict is told of two processes of one name.
func (d *delegate) NotifyConflict(existing, other *memberlist.Node) {
	if existing.Name == d.roster.self.Name {
		d.roster.clone(other.Address())
		d.refused.note(fmt.Errorf("%w: %s is the name of another process, too, at %s", ErrNameTaken, other.Name, other.Address()))
	}
}
