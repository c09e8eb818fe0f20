package ring_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/buraksezer/consistent"
	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"

	"rillkeep.dev/rillkeep/ring"
)

type hasher struct{}

func (hasher) Sum64(b []byte) uint64 { return xxhash.Sum64(b) }

type name string

func (n name) String() string { return string(n) }

// library makes what a table must equal.
func library(names []string, partitions, replication int, load float64) *consistent.Consistent {
	var members []consistent.Member
	for _, n := range names {
		members = append(members, name(n))
	}
	return consistent.New(members, consistent.Config{
		Hasher: hasher{}, PartitionCount: partitions, ReplicationFactor: replication, Load: load,
	})
}

func newTable(t testing.TB, names []string, s ring.Settings) *ring.Table {
	t.Helper()
	table, err := ring.NewTable(names, s)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func numbered(format string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf(format, i)
	}
	return names
}

func shuffled(names []string, r *rand.Rand) []string {
	names = slices.Clone(names)
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}

func TestTableIsTheLibrarysForAnySetOfNames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`(node|stream|10\.0\.0\.)-?[0-9]{1,3}/[a-z0-9]{1,4}`), 1, 40, rapid.ID[string]).Draw(t, "names")
		s := ring.Settings{
			Partitions:  rapid.SampledFrom([]int{1, 2, 13, 71, 271, 4093}).Draw(t, "partitions"),
			Replication: rapid.SampledFrom([]int{1, 3, 20, 100}).Draw(t, "replication"),
			Load:        rapid.SampledFrom([]float64{1, 1.1, 1.25, 2}).Draw(t, "load"),
		}
		table, err := ring.NewTable(names, s)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		want := library(names, s.Partitions, s.Replication, s.Load)
		for i := range 500 {
			id := fmt.Sprintf("stream-%d", i)
			owner, ok := table.Owner(id)
			if w := want.LocateKey([]byte(id)).String(); !ok || owner != w {
				t.Fatalf("%s is owned by %q, the library says %q", id, owner, w)
			}
		}
	})
}

func TestTableDoesNotDependOnTheOrderOfJoins(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"stream-%d/a", "10.0.0.%d/a", "node%d/b", "%d/1"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, 2))
			names := numbered(format, 12)
			want := newTable(t, names, ring.Settings{})
			for range 200 {
				got := newTable(t, append(shuffled(names, r), names[0]), ring.Settings{})
				if got.Digest() != want.Digest() {
					t.Fatal("two digests for one set")
				}
				for i := range 1000 {
					id := fmt.Sprint("id-", i)
					a, _ := got.Owner(id)
					if b, _ := want.Owner(id); a != b {
						t.Fatalf("%s is owned by %s or %s", id, a, b)
					}
				}
			}
		})
	}
}

func TestNoNumberOfMembersPanics(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2, 3, 7, 50, 271, 272, 300, 1000, 4093, 4094, 5000} {
		table := newTable(t, numbered("node-%d/x", n), ring.Settings{})
		owner, ok := table.Owner("id")
		if ok != (n > 0) {
			t.Errorf("%d members: owner %q, %v", n, owner, ok)
		}
		var sum float64
		for _, name := range table.Names() {
			sum += table.Share(name)
		}
		if want := min(1, float64(n)); sum < want-1e-9 || sum > want+1e-9 {
			t.Errorf("%d members: shares add up to %g", n, sum)
		}
	}
	if _, err := ring.NewTable(numbered("node-%d/x", 65536), ring.Settings{Replication: 1}); err == nil {
		t.Error("65536 members were taken")
	}
}

// What panicked in the library's version 0.10.0.
func TestSettingsThatPanickedAreFine(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/memberships.json")
	if err != nil {
		t.Fatal(err)
	}
	var input struct {
		Scale    []int `json:"scale"`
		Settings []struct {
			Partitions, Replication, Members int
			Load                             float64
		} `json:"settings"`
	}
	if err := json.Unmarshal(data, &input); err != nil {
		t.Fatal(err)
	}
	for _, c := range input.Settings {
		table := newTable(t, numbered("node-%d", c.Members), ring.Settings{Partitions: c.Partitions, Replication: c.Replication, Load: c.Load})
		if _, ok := table.Owner("id"); !ok {
			t.Errorf("%+v: nobody owns id", c)
		}
	}
	for _, n := range input.Scale {
		if _, ok := newTable(t, numbered("node-%d", n), ring.Settings{}).Owner("id"); ok != (n > 0) {
			t.Errorf("scaled to %d: %v", n, ok)
		}
	}
}

func TestSettingsOutOfRangeAreRefused(t *testing.T) {
	t.Parallel()
	nan := 0.0
	nan /= nan
	for _, s := range []ring.Settings{
		{Partitions: -1}, {Partitions: 65537}, {Replication: -1}, {Replication: 1001}, {Load: 0.99}, {Load: -1}, {Load: 101}, {Load: nan},
	} {
		if _, err := ring.NewTable([]string{"a"}, s); err == nil {
			t.Errorf("%+v were taken", s)
		}
	}
}

func TestJoiningMovesOnlyWhatTheNewcomerGets(t *testing.T) {
	t.Parallel()
	names := numbered("node-%d/x", 8)
	for n := 1; n < len(names); n++ {
		before, after := newTable(t, names[:n], ring.Settings{}), newTable(t, names[:n+1], ring.Settings{})
		moved := 0
		const ids = 4000
		for i := range ids {
			id := fmt.Sprint("id-", i)
			a, _ := before.Owner(id)
			b, _ := after.Owner(id)
			if a == b {
				continue
			}
			if moved++; b != names[n] {
				t.Errorf("%d→%d members: %s moved from %s to %s", n, n+1, id, a, b)
			}
		}
		if share := float64(moved) / ids; share > 1.5/float64(n+1) {
			t.Errorf("%d→%d members: %.0f %% of the ids moved", n, n+1, 100*share)
		}
	}
}

func TestDigestTellsSettingsAndNamesApart(t *testing.T) {
	t.Parallel()
	seen := map[uint64]string{}
	for _, c := range []struct {
		names []string
		s     ring.Settings
	}{
		{nil, ring.Settings{}}, {[]string{""}, ring.Settings{}}, {[]string{"a", "b"}, ring.Settings{}}, {[]string{"ab"}, ring.Settings{}},
		{[]string{"a"}, ring.Settings{}}, {[]string{"a"}, ring.Settings{Load: 1.5}}, {[]string{"a"}, ring.Settings{Partitions: 271}},
		{[]string{"a"}, ring.Settings{Replication: 20}},
	} {
		d := newTable(t, c.names, c.s).Digest()
		if other, ok := seen[d]; ok {
			t.Errorf("%v and %s have one digest", c, other)
		}
		seen[d] = fmt.Sprint(c)
	}
	explicit := ring.Settings{Partitions: 4093, Replication: 100, Load: 2}
	if newTable(t, []string{"a"}, ring.Settings{}).Digest() != newTable(t, []string{"a"}, explicit).Digest() {
		t.Error("the defaults written out have another digest")
	}
}

// Of the settings only one pair is ever used in a cluster; the golden owners hold
// them, and the hash, across releases.
func TestOwnersStayWhatTheyWere(t *testing.T) {
	t.Parallel()
	table := newTable(t, []string{"a/1", "b/2", "c/3"}, ring.Settings{})
	var got string
	for i := range 24 {
		owner, _ := table.Owner(fmt.Sprint("stream-", i))
		got += owner[:1]
	}
	if want := goldenOwners; got != want || table.Digest() != goldenDigest {
		t.Errorf("owners %s, digest %x; want %s, %x", got, table.Digest(), want, uint64(goldenDigest))
	}
}

const (
	goldenOwners = "cbbccbbcbbaaabaaaaaacbcb"
	goldenDigest = 0x90180212ab5e25cb
)

func TestOwnerAllocatesNothing(t *testing.T) {
	table := newTable(t, numbered("node-%d/x", 50), ring.Settings{})
	if n := testing.AllocsPerRun(100, func() { table.Owner("a stream's id, of some length") }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

func BenchmarkOwner(b *testing.B) {
	table := newTable(b, numbered("node-%d/x", 50), ring.Settings{})
	b.ReportAllocs()
	for b.Loop() {
		table.Owner("chat/7f3c2a90-4f5e-4f0a-9f57-6a1d2e3b4c5d")
	}
}

func BenchmarkNewTable(b *testing.B) {
	for _, n := range []int{3, 7, 20, 50} {
		names := numbered("node-%02d/k3j5h2n9q8r7", n)
		b.Run(fmt.Sprint("members=", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				newTable(b, names, ring.Settings{})
			}
		})
		b.Run(fmt.Sprint("library/members=", n), func(b *testing.B) {
			for b.Loop() {
				library(names, 4093, 100, 2)
			}
		})
	}
}
