package ring

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// State is where a member is in its life. It only ever moves on, but that one that
// waits becomes active again.
type State uint8

// The states. Only active members own streams. Where none is, those that wait do: what
// they wait for is down for all, and one table is better than none.
const (
	Joining  State = iota + 1 // known to the cluster, not ready yet
	Active                    // in the table
	Waiting                   // was active, and can't do what an owner does for now
	Draining                  // on its way out; not in the table any more
)

var stateNames = [...]string{Joining: "joining", Active: "active", Waiting: "waiting", Draining: "draining"}

// String answers the state's name.
func (s State) String() string {
	if s < Joining || s > Draining {
		return fmt.Sprintf("State(%d)", uint8(s))
	}
	return stateNames[s]
}

// Member is one process of the cluster, as it describes itself.
type Member struct {
	Name        string // Node/Incarnation
	Node        string
	Incarnation string
	State       State
	Version     string // of the program
	GossipAddr  string // IP:port, as the following
	PeerAddr    string // where it serves other nodes
	HTTPAddr    string // where it serves the public
}

// Bounds on what makes a member's name, in bytes.
const (
	maxNode        = 128
	maxIncarnation = 32
)

// splitName takes a member's name apart.
func splitName(name string) (node, incarnation string, err error) {
	node, incarnation, ok := strings.Cut(name, "/")
	if !ok {
		return "", "", fmt.Errorf("member name %q is not node/incarnation", name)
	}
	if err := checkPart("Node", node, maxNode); err != nil {
		return "", "", err
	}
	return node, incarnation, checkIncarnation(incarnation)
}

// checkIncarnation is stricter than checkPart: incarnations are listed in
// metadata, where any other character would take up to six bytes.
func checkIncarnation(s string) error {
	if err := checkPart("Incarnation", s, maxIncarnation); err != nil {
		return err
	}
	if strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_' && r != '.'
	}) {
		return fmt.Errorf("setting Incarnation %q must be of letters, digits, '-', '_' and '.'", s)
	}
	return nil
}

func checkPart(field, s string, limit int) error {
	switch {
	case s == "":
		return fmt.Errorf("%s is required", field)
	case len(s) > limit:
		return fmt.Errorf("%s is %d bytes, at most %d", field, len(s), limit)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool {
		return r == '/' || unicode.IsSpace(r) || !unicode.IsPrint(r)
	}):
		return fmt.Errorf("%s %q must be printable, without spaces and slashes", field, s)
	}
	return nil
}
