package auth

import (
	"slices"
	"strings"
	"time"
)

// Op is something that a grant may allow.
type Op string

// The operations. Read, Write and Cancel are asked for one stream; Admin for
// the node: the listing of all streams and the view of the cluster.
const (
	Read   Op = "read"
	Write  Op = "write"
	Cancel Op = "cancel"
	Admin  Op = "admin"
)

func (op Op) known() bool {
	switch op {
	case Read, Write, Cancel, Admin:
		return true
	default:
		return false
	}
}

// Grant is what one token allows. The zero Grant allows nothing. A Grant does
// not change and is safe for concurrent use.
type Grant struct {
	all     bool
	ops     []Op
	streams []pattern
	subject string
	expires time.Time
}

// AllowAll is the grant of a node without keys: everything, for ever. Such a
// node listens on loopback only; see [CheckListen].
func AllowAll() Grant { return Grant{all: true} }

// Allows reports whether the grant allows op on the stream. Whether there is
// such a stream plays no part. For Admin the id is not looked at. It does not
// look at the clock: see Expires.
func (g Grant) Allows(op Op, streamID string) bool {
	if g.all {
		return true
	}
	if !slices.Contains(g.ops, op) {
		return false
	}
	return op == Admin || slices.ContainsFunc(g.streams, func(p pattern) bool { return p.match(streamID) })
}

// Subject is the token's sub: who it was given to, for logs. It may be "".
func (g Grant) Subject() string { return g.subject }

// Expires is when the grant ends, the verifier's leeway included: a read that
// is still open then must be ended. The zero time is never.
func (g Grant) Expires() time.Time { return g.expires }

// pattern is the literal parts between the stars of a pattern; one part alone
// is an exact id.
type pattern []string

func parsePattern(s string) pattern {
	var p pattern
	var part strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '*':
			p = append(p, part.String())
			part.Reset()
			continue
		case s[i] == '\\' && i+1 < len(s) && (s[i+1] == '*' || s[i+1] == '\\'):
			i++
		}
		part.WriteByte(s[i])
	}
	return append(p, part.String())
}

// match takes each part at its first place after the one before, which finds a
// match if there is one, in one pass.
func (p pattern) match(id string) bool {
	if len(p) == 1 {
		return id == p[0]
	}
	first, last := p[0], p[len(p)-1]
	if len(id) < len(first)+len(last) || !strings.HasPrefix(id, first) || !strings.HasSuffix(id, last) {
		return false
	}
	id = id[len(first) : len(id)-len(last)]
	for _, part := range p[1 : len(p)-1] {
		_, rest, found := strings.Cut(id, part)
		if !found {
			return false
		}
		id = rest
	}
	return true
}
