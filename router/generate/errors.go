package generate

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"rillkeep.dev/rillkeep/router/upstream"
)

// The ways in which a call fails beside those of package upstream, matched with
// errors.Is. A refusal is a *StatusError.
var (
	ErrUnreached = errors.New("upstream could not be reached")
	ErrSilent    = errors.New("upstream sent nothing")
	ErrSlow      = errors.New("upstream took too long")
	ErrTooLong   = errors.New("upstream sent a longer response than may be")
)

// StatusError is a provider's refusal.
type StatusError struct {
	Status int             // as 429
	Said   *upstream.Error // what the body said, fit for readers

	RetryAfter time.Duration // what it asks to wait; 0 if it did not say

	final bool // it says not to try again
}

func (e *StatusError) Error() string {
	s := fmt.Sprintf("upstream answered %d %s", e.Status, http.StatusText(e.Status))
	if e.Status >= 300 && e.Status < 400 {
		s += ", which leads elsewhere"
	}
	if e.Said.Message != "" {
		s += ": " + e.Said.Message
	}
	return s
}

// Unwrap gives what the provider said.
func (e *StatusError) Unwrap() error { return e.Said }

// transportError is an ErrUnreached with what the transport said. That names
// addresses, so it is not part of the message.
type transportError struct{ cause error }

func (e *transportError) Error() string        { return ErrUnreached.Error() }
func (e *transportError) Is(target error) bool { return target == ErrUnreached }
func (e *transportError) Unwrap() error        { return e.cause }

// silence is an ErrSilent of so long.
type silence struct{ length time.Duration }

func (e *silence) Error() string        { return fmt.Sprintf("%v for %v", ErrSilent, e.length) }
func (e *silence) Is(target error) bool { return target == ErrSilent }

// slowness is an ErrSlow of so long.
type slowness struct{ length time.Duration }

func (e *slowness) Error() string        { return fmt.Sprintf("%v: more than %v", ErrSlow, e.length) }
func (e *slowness) Is(target error) bool { return target == ErrSlow }
