package storetest

import (
	"context"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

// Lacks says what a store has no place for: tables that are an application's may
// lack what Rillkeep's own have.
type Lacks struct {
	Rows    bool // makes no rows: an open needs one
	Tokens  bool // no owner tokens
	Cancel  bool // no cancel flag
	Error   bool // no message of an error
	Details bool // no producer, no meta, no times
}

// RunLacking is Run for a store that lacks something: it is held to what is left
// of the contract.
func RunLacking(t *testing.T, lacks Lacks, open func(testing.TB) store.Store) {
	run(t, lacks, open)
}

// backed is a store as the tests use it.
type backed struct {
	store.Store
	Backdoor
	lacks Lacks
}

// Open claims a stream, of a row that is there if there must be one.
func (s backed) Open(ctx context.Context, claim plane.Claim) (plane.Row, error) {
	if s.lacks.Rows {
		if _, ok := s.Row(claim.ID); !ok {
			s.Edit(claim.ID, func(*Row) {})
		}
	}
	return s.Store.Open(ctx, claim)
}

// row is what the store can tell of a row.
func (s backed) row(row plane.Row) plane.Row {
	if s.lacks.Tokens {
		row.Token, row.Epoch = "", 1
	}
	if s.lacks.Cancel {
		row.Cancel = false
	}
	if s.lacks.Error {
		row.Error = ""
	}
	return row
}

// stream is what the store can tell of a stream.
func (s backed) stream(stream store.Stream) store.Stream {
	stream.Row = s.row(stream.Row)
	stream.HasError = stream.HasError && !s.lacks.Error
	if s.lacks.Details {
		stream.Producer, stream.Meta = "", nil
		stream.Created, stream.Updated, stream.Ended = time.Time{}, time.Time{}, time.Time{}
	}
	return stream
}
