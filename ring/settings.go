package ring

import (
	"fmt"
	"math"

	"github.com/buraksezer/consistent"
	"github.com/cespare/xxhash/v2"
)

// algorithm names how a table is made of names and settings. Members that differ
// in it would give one stream two owners.
const algorithm = "consistent-v1.0.0 xxhash64"

// maxMembers is how many members the table can tell apart.
const maxMembers = math.MaxUint16

// Settings are the parameters of the table. All members of a cluster have the
// same: one with others is kept out. The zero value means the defaults.
type Settings struct {
	Partitions  int     // how many parts the ids are hashed to, 1 to 65536; 0 means 4093
	Replication int     // points of a member on the ring, 1 to 1000; 0 means 100
	Load        float64 // a member's partitions at most, as a multiple of the mean, 1 to 100; 0 means 2
}

func (s Settings) withDefaults() Settings {
	if s.Partitions == 0 {
		s.Partitions = 4093
	}
	if s.Replication == 0 {
		s.Replication = 100
	}
	if s.Load == 0 {
		s.Load = 2
	}
	return s
}

// String identifies the settings together with the algorithm.
func (s Settings) String() string {
	s = s.withDefaults()
	return fmt.Sprintf("%s %d/%d/%g", algorithm, s.Partitions, s.Replication, s.Load)
}

func (s Settings) validate() error {
	switch {
	case s.Partitions < 1 || s.Partitions > 1<<16:
		return fmt.Errorf("ring settings: Partitions is %d, must be 1 to 65536", s.Partitions)
	case s.Replication < 1 || s.Replication > 1000:
		return fmt.Errorf("ring settings: Replication is %d, must be 1 to 1000", s.Replication)
	case !(s.Load >= 1 && s.Load <= 100):
		return fmt.Errorf("ring settings: Load is %g, must be 1 to 100", s.Load)
	}
	return nil
}

// agree holds the table against the library's for a set of names: should the
// library that is linked in ever decide otherwise than algorithm says, no node
// starts with it.
func (s Settings) agree(names []string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("fill the library's table: %v", p)
		}
	}()
	table, err := NewTable(names, s)
	if err != nil {
		return err
	}
	s = s.withDefaults()
	members := make([]consistent.Member, 0, len(names))
	for _, name := range table.names {
		members = append(members, libraryMember(name))
	}
	library := consistent.New(members, consistent.Config{
		Hasher:            libraryHasher{},
		PartitionCount:    s.Partitions,
		ReplicationFactor: s.Replication,
		Load:              s.Load,
	})
	for p, owner := range table.owners {
		if name := table.names[owner]; library.GetPartitionOwner(p).String() != name {
			return fmt.Errorf("%s: the library gives partition %d to another member than %s", algorithm, p, name)
		}
	}
	return nil
}

type libraryMember string

func (m libraryMember) String() string { return string(m) }

type libraryHasher struct{}

func (libraryHasher) Sum64(b []byte) uint64 { return xxhash.Sum64(b) }
