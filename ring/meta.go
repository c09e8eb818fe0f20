package ring

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/hashicorp/memberlist"
)

// metaVersion counts incompatible changes of metadata.
const metaVersion = 1

// maxReplaced is how many earlier incarnations a member says it replaces.
const maxReplaced = 3

// metadata is what travels with a member in gossip, as JSON of short keys:
// memberlist allows 512 bytes.
type metadata struct {
	Format   int      `json:"v"`
	State    State    `json:"s"`
	Settings string   `json:"r"`
	Version  string   `json:"b,omitempty"`
	Peer     string   `json:"p,omitempty"`
	HTTP     string   `json:"h,omitempty"`
	Replaced []string `json:"o,omitempty"` // incarnations of this node that didn't answer any more
}

func (m metadata) encode() []byte {
	data, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings and numbers
	}
	return data
}

// checkSize refuses metadata that could pass memberlist's limit, where it would
// panic. It names the field that is to blame.
func (m metadata) checkSize() error {
	widest := make([]byte, maxIncarnation)
	for i := range widest {
		widest[i] = 'x'
	}
	m.State = Draining
	m.Replaced = slices.Repeat([]string{string(widest)}, maxReplaced)
	size := len(m.encode())
	if size <= memberlist.MetaMaxSize {
		return nil
	}
	longest, bytes := "Version", len(m.Version)
	for _, f := range []struct{ name, value string }{{"PeerAddr", m.Peer}, {"HTTPAddr", m.HTTP}} {
		if len(f.value) > bytes {
			longest, bytes = f.name, len(f.value)
		}
	}
	return fmt.Errorf("a member's metadata would be %d bytes, at most %d: shorten %s (%d bytes)",
		size, memberlist.MetaMaxSize, longest, bytes)
}

// record is a member with what only the ring needs to know of it.
type record struct {
	Member
	replaced []string
}

// describe makes a record of what memberlist tells, copying all of it.
func describe(n *memberlist.Node) (record, metadata, error) {
	var meta metadata
	node, incarnation, err := splitName(n.Name)
	if err != nil {
		return record{}, meta, err
	}
	if err := json.Unmarshal(n.Meta, &meta); err != nil {
		return record{}, meta, fmt.Errorf("read metadata of %s: %w", n.Name, err)
	}
	ip, ok := netip.AddrFromSlice(n.Addr)
	if ip = ip.Unmap(); !ok || ip.IsUnspecified() {
		return record{}, meta, fmt.Errorf("member %s advertises no usable address: %s", n.Name, n.Addr)
	}
	return record{
		Member: Member{
			Name: n.Name, Node: node, Incarnation: incarnation,
			State: meta.State, Version: meta.Version,
			GossipAddr: net.JoinHostPort(ip.String(), strconv.Itoa(int(n.Port))),
			PeerAddr:   meta.Peer, HTTPAddr: meta.HTTP,
		},
		replaced: meta.Replaced,
	}, meta, nil
}

// check refuses a member that can't be in one ring with us.
func (m metadata) check(name string, s Settings) error {
	switch {
	case m.Format != metaVersion:
		return fmt.Errorf("%w: %s speaks version %d, this node %d", ErrSettings, name, m.Format, metaVersion)
	case m.Settings != s.String():
		return fmt.Errorf("%w: %s has %q, this node %q; all nodes need the same", ErrSettings, name, m.Settings, s.String())
	case m.State < Joining || m.State > Draining:
		return fmt.Errorf("member %s is in unknown state %d", name, m.State)
	}
	return nil
}
