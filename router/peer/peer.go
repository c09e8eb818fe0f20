package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
)

// MaxHops is how many members in a row may pass a request on. A request of a
// higher hop count is refused with 508.
const MaxHops = 2

const (
	maxName   = 256 // bytes
	minSecret = 16  // bytes
)

// Peer is a member to be asked.
type Peer struct {
	Name string // must be what the member's server is called
	Addr string // host:port of its peer listener
}

// Caller is the member that sent a request.
type Caller struct {
	Name string
	Hop  int // 1 if the caller's own, 2 if it was passed on to the caller
}

type callerKey struct{}

// From gives the member that sent the request whose context ctx is, or is
// derived from. A request that [Client.Do] sends with such a context has the
// next higher hop count.
func From(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	return c, ok
}

type quietKey struct{}

// Quiet derives a context for requests whose answers may pause for as long as they
// like. What bounds the wait for them is that their connection lives, which is found
// out by pings.
func Quiet(ctx context.Context) context.Context { return context.WithValue(ctx, quietKey{}, true) }

// Secret is a cluster secret. It prints as a placeholder.
type Secret string

const hidden = "(secret)"

func (Secret) String() string               { return hidden }
func (Secret) GoString() string             { return hidden }
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }
func (Secret) LogValue() slog.Value         { return slog.StringValue(hidden) }

// Identity is what makes a process a member of a cluster. Secrets or TLS or
// both must be given.
type Identity struct {
	// Name is this member's: 1-256 bytes without spaces and controls. No two
	// processes should ever have the same one: it is what makes a request to one
	// worthless at its successor, which does not know what was used before.
	Name    string
	Cluster string // all members' the same; secrets of clusters of other names don't fit

	// Secrets authenticate requests: the first signs, all verify. To change a
	// secret in a running cluster give every member first (old, new), then
	// (new, old), then (new). At least 16 bytes each.
	Secrets []Secret
	TLS     *TLS // nil means cleartext
}

var errConfig = errors.New("peer configuration")

func (id Identity) check() error {
	if err := checkName(id.Name); err != nil {
		return fmt.Errorf("%w: name: %w", errConfig, err)
	}
	if len(id.Secrets) == 0 && id.TLS == nil {
		return fmt.Errorf("%w: neither a secret nor certificates given", errConfig)
	}
	if slices.ContainsFunc(id.Secrets, func(s Secret) bool { return len(s) < minSecret }) {
		return fmt.Errorf("%w: a secret is shorter than %d bytes", errConfig, minSecret)
	}
	return nil
}

// checkName refuses what does not survive a header field.
func checkName(s string) error {
	if s == "" || len(s) > maxName {
		return fmt.Errorf("not 1 to %d bytes long", maxName)
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return errors.New("has a space or a control character")
		}
	}
	return nil
}
