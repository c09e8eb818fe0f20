package ring

import "errors"

// Why a node is not taken in, and what a ring can't do. All are matched with
// errors.Is; the wrapping text says what differs and what to do about it.
var (
	ErrSecret    = errors.New("cluster secret differs")
	ErrCluster   = errors.New("cluster name differs")
	ErrNameTaken = errors.New("node name is taken")
	ErrSettings  = errors.New("ring settings differ")

	ErrClosed = errors.New("ring is closed")
)
