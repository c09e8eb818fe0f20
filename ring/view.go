package ring

import (
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
)

// View is the cluster as this node knows it at one moment: immutable, and safe for
// concurrent use.
type View struct {
	*Table

	self     string
	members  []Member        // sorted by name
	gone     map[string]bool // replaced, by name
	replaced bool
	changed  chan struct{}
}

// Members answers all members that are thought alive, in every state, sorted by
// name, in a slice of the caller's own.
func (v *View) Members() []Member { return slices.Clone(v.members) }

// Member answers the member of a name.
func (v *View) Member(name string) (Member, bool) {
	i, ok := slices.BinarySearchFunc(v.members, name, func(m Member, name string) int {
		return strings.Compare(m.Name, name)
	})
	if !ok {
		return Member{}, false
	}
	return v.members[i], true
}

// Has reports whether a member is thought alive. One that another process of its
// node's name has replaced is not, though it may take a while to be seen dead.
func (v *View) Has(name string) bool {
	_, ok := v.Member(name)
	return ok && !v.gone[name]
}

// Self answers this node's own name.
func (v *View) Self() string { return v.self }

// Replaced says that another process of this node's name took its place because
// this one didn't answer: this one should end.
func (v *View) Replaced() bool { return v.replaced }

// Changed is closed once there is a newer view.
func (v *View) Changed() <-chan struct{} { return v.changed }

// watch makes a view of every change, the one goroutine that does. Changes are
// gathered for SettleDelay, but for a member that is out of the table.
func (r *Ring) watch() {
	var settled <-chan time.Time
	for {
		select {
		case <-r.roster.changed:
			switch {
			case r.roster.hurry():
				settled = nil
				r.look()
			case settled == nil:
				settled = time.After(r.cfg.SettleDelay)
			}
		case <-settled:
			settled = nil
			r.look()
		case <-r.life.Done():
			return
		}
	}
}

// look makes a view of the roster, if it shows anything new.
func (r *Ring) look() {
	records := r.roster.all()
	old := r.view.Load()
	next := &View{Table: old.Table, self: old.self, changed: make(chan struct{})}
	gone := replacedBy(slices.Values(records))
	var active, waiting []string
	for _, rec := range records {
		next.members = append(next.members, rec.Member)
		switch {
		case gone[rec.Name]:
		case rec.State == Active:
			active = append(active, rec.Name)
		case rec.State == Waiting:
			waiting = append(waiting, rec.Name)
		}
	}
	if len(active) == 0 {
		active = waiting
	}
	next.gone, next.replaced = gone, gone[next.self]
	if slices.Equal(next.members, old.members) && maps.Equal(gone, old.gone) && slices.Equal(active, old.names) {
		return
	}
	if !slices.Equal(active, old.names) {
		table, err := r.fill(active)
		if err != nil { // the old table is better than none
			r.journal.write(slog.LevelError, "ring: keeps its old table", slog.Any("error", err))
		} else {
			next.Table = table
		}
	}
	r.view.Store(next)
	r.views.Add(1)
	close(old.changed)
	r.tell(old, next, gone)
}

// fill makes a table, whatever happens: this goroutine must go on.
func (r *Ring) fill(names []string) (t *Table, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("fill table: %v", p)
		}
	}()
	return NewTable(names, r.cfg.Settings)
}

// replacedBy answers the members that a later process of their node replaced. One
// that only joins replaces nobody yet.
func replacedBy(records iter.Seq[record]) map[string]bool {
	gone := make(map[string]bool)
	for rec := range records {
		if rec.State == Joining {
			continue
		}
		for _, incarnation := range rec.replaced {
			if incarnation != rec.Incarnation {
				gone[rec.Node+"/"+incarnation] = true
			}
		}
	}
	return gone
}

// tell logs what a new view shows.
func (r *Ring) tell(old, next *View, gone map[string]bool) {
	log := r.journal
	self, _ := next.Member(next.self)
	for _, m := range next.members {
		before, known := old.Member(m.Name)
		if !known || before.State != m.State {
			log.write(slog.LevelInfo, "ring: member", slog.String("name", m.Name),
				slog.String("state", m.State.String()), slog.String("addr", m.GossipAddr))
		}
		if !known && m.Name != self.Name && m.Node == self.Node && !gone[m.Name] && self.State != Joining {
			r.refused.note(fmt.Errorf("%w: %s is in the cluster, too, at %s", ErrNameTaken, m.Name, m.GossipAddr))
		}
	}
	for _, m := range old.members {
		if _, still := next.Member(m.Name); !still {
			log.write(slog.LevelInfo, "ring: member gone", slog.String("name", m.Name), slog.String("addr", m.GossipAddr))
		}
	}
	if next.replaced && !old.replaced {
		log.write(slog.LevelError, "ring: another process took this node's place", slog.String("name", next.self))
	}
	if next.Table != old.Table {
		log.write(slog.LevelDebug, "ring: table",
			slog.Int("members", len(next.names)), slog.String("digest", fmt.Sprintf("%016x", next.Digest())))
	}
}
