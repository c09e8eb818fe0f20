package ring

import (
	"strings"
	"testing"

	"github.com/hashicorp/memberlist"
)

// Whatever a peer says of itself is either a member or refused.
func FuzzDescribe(f *testing.F) {
	f.Add("node-1/a", []byte{10, 0, 0, 1}, metadata{Format: metaVersion, State: Active, Settings: Settings{}.String(), Peer: "10.0.0.1:7947"}.encode())
	f.Add("node-1", []byte{0, 0, 0, 0}, []byte(`{"v":1}`))
	f.Add("a/b/c", []byte(nil), []byte(nil))
	f.Add("a/b", make([]byte, 16), []byte(`{"v":1,"s":300}`))
	f.Fuzz(func(t *testing.T, name string, addr, meta []byte) {
		rec, m, err := describe(&memberlist.Node{Name: name, Addr: addr, Port: 7946, Meta: meta})
		if err != nil {
			return
		}
		if rec.Name != name || rec.Name != rec.Node+"/"+rec.Incarnation || strings.Contains(rec.Incarnation, "/") {
			t.Errorf("%q became %+v", name, rec)
		}
		if _, ok := canonical(rec.GossipAddr); !ok {
			t.Errorf("address %q", rec.GossipAddr)
		}
		if m.check(name, Settings{}) == nil && (m.State < Joining || m.State > Draining) {
			t.Errorf("state %d was taken", m.State)
		}
	})
}

func FuzzParseLine(f *testing.F) {
	f.Add("[WARN] memberlist: Refuting a suspect message (from: x)\n")
	f.Add("[ERR] Failed to shutdown transport")
	f.Add("[")
	f.Add("[DEBUG]memberlist: ")
	f.Fuzz(func(t *testing.T, s string) {
		if _, text := parseLine(s); len(text) > len(s) {
			t.Errorf("%q became %q", s, text)
		}
	})
}
