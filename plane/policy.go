package plane

import (
	"errors"
	"fmt"
	"time"
)

// Policy says when text becomes durable and what a stream may grow to. The zero
// Policy is DefaultPolicy; any other is taken as it stands.
type Policy struct {
	Units      int64         // outstanding units that start a checkpoint
	Interval   time.Duration // a delta waits no longer than this for a checkpoint to start
	Retries    int           // repeats of a failing store call
	RetryDelay time.Duration // before the first repeat; doubled for each one after

	// MaxBackoff bounds the pause between attempts while the store stays down:
	// Interval after the first failed round, then doubled, with jitter.
	MaxBackoff time.Duration

	// SealPatience is how long a seal asks again, beyond Retries, for a row that
	// another session has locked (ErrBusy), before readers are told that the
	// stream was interrupted.
	SealPatience time.Duration

	StoreTimeout   time.Duration // deadline of one store call
	MaxSlice       int64         // units in one checkpoint
	MaxOutstanding int64         // units that may wait for the store before Push does
	MaxUnits       int64         // whole length of a stream; Push answers ErrTooLong beyond

	// CancelGrace is how long the producer of a stream that was asked to stop
	// has to end it itself; then it is sealed cancelled. 0 waits for ever.
	CancelGrace time.Duration

	// MaxLag drops a reader, with stale, that is this many units behind. 0 is
	// no limit: a reader is a cursor, and lagging costs nothing.
	MaxLag int64
}

// DefaultPolicy returns the policy that suits a database on the same network.
func DefaultPolicy() Policy {
	return Policy{
		Units:          512,
		Interval:       750 * time.Millisecond,
		Retries:        3,
		RetryDelay:     50 * time.Millisecond,
		MaxBackoff:     30 * time.Second,
		SealPatience:   30 * time.Second,
		StoreTimeout:   10 * time.Second,
		MaxSlice:       256 << 10,
		MaxOutstanding: 1 << 20,
		MaxUnits:       16 << 20,
		CancelGrace:    2 * time.Second,
	}
}

// ErrConfig is matched by every refusal of a setting, this package's and others'.
var ErrConfig = errors.New("setting refused")

// Validate reports why p would be refused.
func (p Policy) Validate() error {
	if p == (Policy{}) {
		return nil
	}
	for _, c := range []struct {
		name string
		ok   bool
		want string
	}{
		{"Units", p.Units >= 1, "at least 1"},
		{"Interval", p.Interval > 0, "more than 0"},
		{"Retries", p.Retries >= 0, "0 or more"},
		{"RetryDelay", p.RetryDelay > 0, "more than 0"},
		{"MaxBackoff", p.MaxBackoff > 0, "more than 0"},
		{"SealPatience", p.SealPatience >= 0, "0 or more"},
		{"StoreTimeout", p.StoreTimeout > 0, "more than 0"},
		{"MaxSlice", p.MaxSlice >= 2, "at least 2, one character"},
		{"MaxOutstanding", p.MaxOutstanding >= 1, "at least 1"},
		{"MaxUnits", p.MaxUnits >= 1, "at least 1"},
		{"CancelGrace", p.CancelGrace >= 0, "0 or more"},
		{"MaxLag", p.MaxLag >= 0, "0 or more"},
	} {
		if !c.ok {
			return fmt.Errorf("%w: policy %s must be %s", ErrConfig, c.name, c.want)
		}
	}
	return nil
}
