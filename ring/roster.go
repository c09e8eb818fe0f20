package ring

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// maxMissing bounds how many members that are gone are remembered.
const maxMissing = 1024

// roster is what memberlist's callbacks said. They run under memberlist's own
// lock: here they change maps and signal, and wait for nothing.
type roster struct {
	self    Member
	changed chan struct{} // of capacity 1: there is something to look at

	mu        sync.Mutex
	members   map[string]record
	missing   map[string]absence // members that are gone, by gossip address
	namesakes map[string]string  // other processes of this node's name that may live: gossip addresses by incarnation
	urgent    bool               // a member is out of the table
	cloned    string             // address of another process with this very name
}

// absence is who is gone, and since when.
type absence struct {
	name  string
	since time.Time
}

func newRoster(self Member) *roster {
	return &roster{
		self:      self,
		changed:   make(chan struct{}, 1),
		members:   make(map[string]record),
		missing:   make(map[string]absence),
		namesakes: make(map[string]string),
	}
}

func (r *roster) signal() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// put takes in a member that is new or has changed.
func (r *roster) put(rec record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.members[rec.Name].State == Active && rec.State > Active {
		r.urgent = true
	}
	r.members[rec.Name] = rec
	delete(r.missing, rec.GossipAddr)
	r.meet(rec)
	r.signal()
}

// drop takes out a member that left, or was found dead.
func (r *roster) drop(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec, ok := r.members[name]
	if !ok {
		return
	}
	delete(r.members, name)
	delete(r.namesakes, rec.Incarnation)
	if rec.State != Draining && name != r.self.Name && len(r.missing) < maxMissing {
		r.missing[rec.GossipAddr] = absence{name, time.Now()}
	}
	r.urgent = true
	r.signal()
}

// hear takes in a process that a peer told of, which may be suspected or dead.
func (r *roster) hear(rec record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.meet(rec)
}

// meet remembers a process of this node's name. Callers hold mu.
func (r *roster) meet(rec record) {
	if rec.Node == r.self.Node && rec.Name != r.self.Name {
		r.namesakes[rec.Incarnation] = rec.GossipAddr
	}
}

// clone notes that another process goes by this very name.
func (r *roster) clone(addr string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cloned = addr
}

// others answers the processes of this node's name that it should ask whether
// they live, and the address of one with the very name.
func (r *roster) others() (namesakes map[string]string, cloned string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.namesakes), r.cloned
}

func (r *roster) state(name string) State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.members[name].State
}

// all answers the members sorted by name, and forgets that there was a hurry.
func (r *roster) all() []record {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.urgent = false
	all := make([]record, 0, len(r.members))
	for _, name := range slices.Sorted(maps.Keys(r.members)) {
		all = append(all, r.members[name])
	}
	return all
}

func (r *roster) hurry() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.urgent
}

// absent answers where members were that are gone since less than memory, and
// forgets the others, and those that were replaced; present are where members are.
func (r *roster) absent(memory time.Duration) (absent []string, present map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	present = make(map[string]bool, len(r.members)+1)
	for _, rec := range r.members {
		present[rec.GossipAddr] = true
	}
	gone := replacedBy(maps.Values(r.members))
	maps.DeleteFunc(r.missing, func(addr string, a absence) bool {
		return present[addr] || gone[a.name] || time.Since(a.since) > memory
	})
	return slices.Sorted(maps.Keys(r.missing)), present
}
