package plane

import (
	"fmt"
	"strconv"
	"strings"
)

// ProducerEpoch says which of a stream's producers somebody is: each open, resume
// and takeover begins another one, and fences those before (409 fenced). It is the
// stream's epoch, which a takeover raises in the row, and a number that its owner
// counts within that: to resume a stream that lives needs no store. The zero value
// is nobody in particular, who is never fenced.
type ProducerEpoch struct {
	Epoch   int64 // the stream's
	Session int64 // within it, from 1
}

// Before reports whether p was fenced by q.
func (p ProducerEpoch) Before(q ProducerEpoch) bool {
	if p == (ProducerEpoch{}) {
		return false
	}
	return p.Epoch < q.Epoch || p.Epoch == q.Epoch && p.Session < q.Session
}

// String returns the form in which producers give it back, "epoch.session".
func (p ProducerEpoch) String() string {
	return strconv.FormatInt(p.Epoch, 10) + "." + strconv.FormatInt(p.Session, 10)
}

// ParseProducerEpoch reads what String returns.
func ParseProducerEpoch(s string) (ProducerEpoch, error) {
	epoch, session, ok := strings.Cut(s, ".")
	e, err1 := strconv.ParseUint(epoch, 10, 63)
	n, err2 := strconv.ParseUint(session, 10, 63)
	if !ok || err1 != nil || err2 != nil || e == 0 || n == 0 {
		return ProducerEpoch{}, fmt.Errorf("producer epoch %.32q is not of the form 1.1", s)
	}
	return ProducerEpoch{int64(e), int64(n)}, nil
}
