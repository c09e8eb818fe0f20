package sqlite

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"rillkeep.dev/rillkeep/store"
)

// busy reports whether a call failed since another connection has what it needs.
func busy(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && (e.Code()&0xFF == lib.SQLITE_BUSY || e.Code()&0xFF == lib.SQLITE_LOCKED)
}

// do runs a call, unless the store is closed.
func (s *Store) do(call func() error) error {
	err := s.calls.Do(call)
	if busy(err) {
		return fmt.Errorf("%w: %w", store.ErrBusy, err)
	}
	return err
}
