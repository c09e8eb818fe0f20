package plane

import (
	"errors"
	"slices"
	"strings"
)

// ErrDiverged says that of two texts that should be prefixes of one, neither is
// a prefix of the other.
var ErrDiverged = errors.New("durable and produced text differ")

// Splice returns the longer of two prefixes of one text, a reader's merge of the
// durable and the live plane: durable, and what produced has beyond it. It
// trusts that they are prefixes of one text; see [Merge].
func Splice(durable, produced string) string {
	if strings.HasPrefix(produced, durable) {
		return produced
	}
	n := Units(durable)
	if Units(produced) <= n {
		return durable
	}
	return decodeHalves(append(encodeHalves(durable), encodeHalves(produced)[n:]...))
}

// Merge is Splice for texts that may not belong together: if they differ it
// returns durable, which is what the store will show, and ErrDiverged.
func Merge(durable, produced string) (string, error) {
	switch {
	case strings.HasPrefix(produced, durable):
		return produced, nil
	case strings.HasPrefix(durable, produced):
		return durable, nil
	}
	d, p := encodeHalves(durable), encodeHalves(produced)
	n := min(len(d), len(p))
	if !slices.Equal(d[:n], p[:n]) {
		return durable, ErrDiverged
	}
	return Splice(durable, produced), nil
}
