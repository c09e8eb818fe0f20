package ring

import (
	"fmt"
	"testing"

	"github.com/buraksezer/consistent"
	"github.com/cespare/xxhash/v2"
)

// A hash of few values makes many points share a place, which 64 bits never do in
// practice: there, too, the table is the library's.
type coarse struct{ values uint64 }

func (c coarse) Sum64(b []byte) uint64 { return xxhash.Sum64(b) % c.values }

func TestPointsOfOneHashBelongToTheirLastMember(t *testing.T) {
	for _, values := range []uint64{1, 2, 7, 50, 1000} {
		for n := 1; n <= 9; n++ {
			var names []string
			var members []consistent.Member
			for i := range n {
				names = append(names, fmt.Sprintf("node-%d", i))
				members = append(members, libraryMember(names[i]))
			}
			owners, err := fill(names, Settings{Partitions: 71, Replication: 20, Load: 100}, coarse{values}.Sum64)
			if err != nil {
				t.Fatal(err)
			}
			library := consistent.New(members, consistent.Config{
				Hasher: coarse{values}, PartitionCount: 71, ReplicationFactor: 20, Load: 100,
			})
			for p, owner := range owners {
				if want := library.GetPartitionOwner(p).String(); names[owner] != want {
					t.Fatalf("%d hashes, %d members: partition %d is %s's, the library's says %s", values, n, p, names[owner], want)
				}
			}
		}
	}
}

func TestATableThatCannotBeFilledIsAnError(t *testing.T) {
	// All points are the last member's, whose bound is a part of all partitions.
	if _, err := fill([]string{"a", "b", "c"}, Settings{Partitions: 71, Replication: 1, Load: 1}, coarse{1}.Sum64); err == nil {
		t.Fatal("filled")
	}
}
