package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"rillkeep.dev/rillkeep/plane"
)

// What only the HTTP API says.
var (
	ErrBadRequest   = errors.New("request is not understood")
	ErrUnauthorized = errors.New("a valid token is needed")
	ErrForeign      = errors.New("request comes from another site")
	ErrTooLarge     = errors.New("request body is too large")
	ErrMediaType    = errors.New("content type is not supported")
	ErrUpstream     = errors.New("upstream failed")
	ErrUnavailable  = errors.New("node can't serve this now; try again")
	ErrNoRoute      = errors.New("no such route")
	ErrMethod       = errors.New("method is not allowed here")
	ErrUnsupported  = errors.New("the store has no place for this")
	ErrInternal     = errors.New("internal error")
)

// ErrNoAnswer is an ErrUnavailable of a call that may have been done: the node that was
// asked is lost, with what it answered.
var ErrNoAnswer = fmt.Errorf("the call may have been done: %w", ErrUnavailable)

// codes is the one table of errors, statuses and codes. The first match counts.
var codes = []struct {
	err    error
	status int
	code   string
}{
	{plane.ErrShort, http.StatusServiceUnavailable, "not_durable"}, // whatever its cause is
	{ErrBadRequest, http.StatusBadRequest, "bad_request"},
	{ErrUnauthorized, http.StatusUnauthorized, "unauthorized"},
	{plane.ErrDenied, http.StatusForbidden, "forbidden"},
	{ErrForeign, http.StatusForbidden, "foreign"},
	{plane.ErrNotFound, http.StatusNotFound, "not_found"},
	{ErrNoRoute, http.StatusNotFound, "no_route"},
	{ErrMethod, http.StatusMethodNotAllowed, "method"},
	{plane.ErrMoved, http.StatusServiceUnavailable, "moved"},
	{plane.ErrDraining, http.StatusServiceUnavailable, "draining"},
	{plane.ErrExists, http.StatusConflict, "exists"},
	{plane.ErrOpenHere, http.StatusConflict, "open_here"},
	{plane.ErrHeld, http.StatusConflict, "held"},
	{plane.ErrLostRace, http.StatusConflict, "lost_race"},
	{plane.ErrNullLength, http.StatusConflict, "null_length"},
	{plane.ErrClosed, http.StatusConflict, "closed"},
	{plane.ErrCancelled, http.StatusConflict, "cancelled"},
	{plane.ErrSuperseded, http.StatusConflict, "fenced"},
	{plane.ErrFenced, http.StatusServiceUnavailable, "owner_fenced"},          // the stream goes on elsewhere
	{plane.ErrProducerEpoch, http.StatusServiceUnavailable, "producer_epoch"}, // asked of a node that is behind the times
	{plane.ErrGap, http.StatusConflict, "gap"},
	{plane.ErrConflict, http.StatusConflict, "conflict"},
	{plane.ErrCut, http.StatusBadRequest, "cut_character"},
	{plane.ErrTooLong, http.StatusRequestEntityTooLarge, "too_long"},
	{ErrTooLarge, http.StatusRequestEntityTooLarge, "too_large"},
	{ErrMediaType, http.StatusUnsupportedMediaType, "unsupported_media_type"},
	{plane.ErrFull, http.StatusServiceUnavailable, "full"},
	{ErrUnsupported, http.StatusNotImplemented, "unsupported"},
	{ErrUpstream, http.StatusBadGateway, "upstream"},
	{ErrNoAnswer, http.StatusServiceUnavailable, "no_answer"},
	{ErrUnavailable, http.StatusServiceUnavailable, "unavailable"},
}

// Error is an error as the API says it. errors.Is finds in it what it was on
// the node.
type Error struct {
	Status  int    `json:"-"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Want    *int64 `json:"want,omitempty"` // gap, conflict, moved: where the next append starts

	err error
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Unwrap gives what the code stands for.
func (e *Error) Unwrap() error { return e.err }

// ErrorBody is the body of every answer that is not 2xx.
type ErrorBody struct {
	Error *Error `json:"error"`
}

// FromError returns err as the API says it. The message of an error that is in
// no table stays on the node.
func FromError(err error) *Error {
	var said *Error
	if errors.As(err, &said) {
		return said
	}
	for _, c := range codes {
		if !errors.Is(err, c.err) {
			continue
		}
		e := &Error{Status: c.status, Code: c.code, Message: c.err.Error(), err: c.err}
		var detail *detailed
		var offset *plane.OffsetError
		var short *plane.ShortError
		switch {
		case errors.As(err, &offset):
			e.Message, e.Want = offset.Error(), &offset.Want
		case errors.As(err, &short):
			e.Message = fmt.Sprintf("durable %d of %d produced; the store did not take the rest", short.Durable, short.Produced)
		case errors.As(err, &detail):
			e.Message = detail.message
		}
		return e
	}
	return &Error{Status: http.StatusInternalServerError, Code: "internal", Message: ErrInternal.Error(), err: ErrInternal}
}

// Decode returns the error that an answer with this status and body stands for.
func Decode(status int, body []byte) *Error {
	var b ErrorBody
	if json.Unmarshal(body, &b) != nil || b.Error == nil || b.Error.Code == "" {
		b.Error = &Error{Code: "internal", Message: fmt.Sprintf("server answered %d %s", status, http.StatusText(status))}
	}
	e := Restore(b.Error)
	e.Status = status
	return e
}

// detailed is one of this package's errors with a message for whoever asked.
type detailed struct {
	err     error
	message string
}

func (d *detailed) Error() string { return d.message }
func (d *detailed) Unwrap() error { return d.err }

// Detail returns an error that is err and says what to do about it.
func Detail(err error, format string, args ...any) error {
	return &detailed{err, fmt.Sprintf(format, args...)}
}

// Restore gives an error that was decoded within another body what its code
// stands for.
func Restore(e *Error) *Error {
	e.Status, e.err = http.StatusInternalServerError, ErrInternal
	for _, c := range codes {
		if c.code == e.Code {
			e.Status, e.err = c.status, c.err
			if e.Want != nil {
				e.err = &plane.OffsetError{Kind: c.err, Want: *e.Want}
			}
			break
		}
	}
	return e
}
