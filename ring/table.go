package ring

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// Table says which member owns an id. It is a pure function of the settings and
// the set of names, whatever their order, immutable, and safe for concurrent use.
type Table struct {
	names  []string
	owners []uint16 // by partition, an index of names; empty without names
	shares []int    // partitions by index of names
	digest uint64
}

// NewTable fills a table for a set of names; a name that is given twice counts
// once. No names make a table without owners. It fails if the settings are out of
// their ranges, or there are more than 65535 names.
func NewTable(names []string, s Settings) (*Table, error) {
	s = s.withDefaults()
	if err := s.validate(); err != nil {
		return nil, err
	}
	names = slices.Clone(names)
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > maxMembers {
		return nil, fmt.Errorf("fill table: %d members, at most %d", len(names), maxMembers)
	}
	owners, err := fill(names, s, xxhash.Sum64)
	if err != nil {
		return nil, err
	}
	t := &Table{names: names, owners: owners, shares: make([]int, len(names)), digest: digest(names, s)}
	for _, owner := range owners {
		t.shares[owner]++
	}
	return t, nil
}

// Owner answers the name of the member that owns id; without members, false.
func (t *Table) Owner(id string) (name string, ok bool) {
	if len(t.owners) == 0 {
		return "", false
	}
	return t.names[t.owners[xxhash.Sum64String(id)%uint64(len(t.owners))]], true
}

// Digest identifies the algorithm, the settings and the set of names: tables with
// the same digest give every id the same owner. It is for diagnosis, and not a
// reason to refuse anything: in a rolling restart most digests differ and nearly
// all owners agree.
func (t *Table) Digest() uint64 { return t.digest }

// Names answers the names, sorted, in a slice of the caller's own.
func (t *Table) Names() []string { return slices.Clone(t.names) }

// Share answers which part of all ids name owns, 0 to 1; 0 if it isn't in the table.
func (t *Table) Share(name string) float64 {
	i, ok := slices.BinarySearch(t.names, name)
	if !ok {
		return 0
	}
	return float64(t.shares[i]) / float64(len(t.owners))
}

// point is one of a member's places on the ring.
type point struct {
	hash   uint64
	member uint16
}

// fill answers each partition's owner. It does what consistent.New does, which
// sorts all points again for every member that it adds.
func fill(names []string, s Settings, hash func([]byte) uint64) ([]uint16, error) {
	if len(names) == 0 {
		return nil, nil
	}
	points := circle(names, s.Replication, hash)
	bound := int(math.Ceil(float64(s.Partitions) / float64(len(names)) * s.Load))
	owners := make([]uint16, s.Partitions)
	loads := make([]int, len(names))
	var key [8]byte
	for p := range owners {
		binary.LittleEndian.PutUint64(key[:], uint64(p))
		h := hash(key[:])
		at := sort.Search(len(points), func(i int) bool { return points[i].hash >= h })
		for tries := 0; ; tries++ {
			if tries == len(points) {
				return nil, errors.New("fill table: not enough room to distribute partitions")
			}
			if at == len(points) {
				at = 0
			}
			if member := points[at].member; loads[member] < bound {
				owners[p] = member
				loads[member]++
				break
			}
			at++
		}
	}
	return owners, nil
}

// circle is all members' points in the order of their hashes. Points of one hash
// all belong to the last of their members, as in the library, which keeps them in
// a map.
func circle(names []string, replication int, hash func([]byte) uint64) []point {
	points := make([]point, 0, len(names)*replication)
	var key []byte
	for member, name := range names {
		for i := range replication {
			key = strconv.AppendInt(key[:0], int64(i), 10)
			key = append(key, ':')
			key = append(key, name...)
			points = append(points, point{hash: hash(key), member: uint16(member)})
		}
	}
	slices.SortFunc(points, func(a, b point) int {
		if c := cmp.Compare(a.hash, b.hash); c != 0 {
			return c
		}
		return cmp.Compare(a.member, b.member)
	})
	for i := len(points) - 2; i >= 0; i-- {
		if points[i].hash == points[i+1].hash {
			points[i].member = points[i+1].member
		}
	}
	return points
}

func digest(names []string, s Settings) uint64 {
	h := xxhash.New()
	buf := append([]byte(s.String()), 0)
	for _, name := range names {
		buf = binary.AppendUvarint(buf, uint64(len(name)))
		buf = append(buf, name...)
	}
	_, _ = h.Write(buf) // never fails
	return h.Sum64()
}
