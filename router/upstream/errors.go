package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The ways in which a response fails, matched with errors.Is; see the package
// comment. A failure that the provider reported is an *Error instead.
var (
	ErrTruncated = errors.New("upstream ended before its response did")
	ErrEmpty     = errors.New("upstream sent no response")
	ErrMalformed = errors.New("upstream sent what is no response")
	ErrTooLong   = errors.New("upstream sent too long a line")
)

func tooLong(limit int) error { return fmt.Errorf("%w: more than %d bytes", ErrTooLong, limit) }

// cutError is an ErrTruncated with what the transport said. That names
// addresses, so it is not part of the message.
type cutError struct{ cause error }

func (e *cutError) Error() string        { return ErrTruncated.Error() }
func (e *cutError) Is(target error) bool { return target == ErrTruncated }
func (e *cutError) Unwrap() error        { return e.cause }

// truncated returns the ErrTruncated for a read that ended with err. An end that
// came too early is an io.ErrUnexpectedEOF, whoever noticed it.
func truncated(err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return &cutError{err}
}

// DataError is an ErrMalformed with its place.
type DataError struct {
	At   int    // the event or line, counted from 1; 0 if it is the body itself
	What string // what is wrong; holds nothing of the data
}

func (e *DataError) Error() string {
	if e.At == 0 {
		return fmt.Sprintf("%v: %s", ErrMalformed, e.What)
	}
	return fmt.Sprintf("%v: number %d %s", ErrMalformed, e.At, e.What)
}

// Is makes a DataError match ErrMalformed.
func (e *DataError) Is(target error) bool { return target == ErrMalformed }

// Error is a failure that the provider reported. Its fields and its message are
// fit for readers: names of hosts, addresses and keys are cut out.
type Error struct {
	Type    string // the provider's class of error, as rate_limit_error; "" if it gave none
	Code    string // the provider's code, as 429 or context_length_exceeded; "" if none
	Message string // what the provider said, redacted; may be ""
	raw     string
}

func (e *Error) Error() string {
	s := "upstream error"
	switch {
	case e.Type != "" && e.Code != "" && e.Code != e.Type:
		s += " " + e.Type + " (" + e.Code + ")"
	case e.Type != "":
		s += " " + e.Type
	case e.Code != "":
		s += " " + e.Code
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

// Raw returns what the provider sent, for the producer's own log and for no
// reader: it may name hosts and keys.
func (e *Error) Raw() string { return e.raw }

// ParseError returns the Error that the body of a refusal, which is no stream, tells
// of. Of a body that is no JSON nothing is said: it is a page of some proxy.
func ParseError(body []byte) *Error {
	if !json.Valid(body) {
		return &Error{raw: string(body)}
	}
	if list := elements(body); len(list) > 0 { // some wrap an error in a list
		body = list[0]
	}
	return newError(body)
}

// reported reports whether raw, the value of a field that is named for errors,
// says that there was one. Some providers send null, false or "" for none.
func reported(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", "false", `""`:
		return false
	default:
		return true
	}
}

// maxNested is how deep an error is looked for in errors. Each is read anew: a line of
// nothing but errors would take minutes.
const maxNested = 4

// newError makes an Error of an error's JSON in any of the usual shapes: a
// string, an object with message, type and code, or an object that holds one of
// these as error. What is no JSON is taken for the message.
func newError(data []byte) *Error {
	e := nestedError(data, maxNested)
	e.raw = string(data)
	return e
}

func nestedError(data []byte, depth int) *Error {
	e := new(Error)
	var v struct {
		Error   json.RawMessage
		Message json.RawMessage
		Detail  json.RawMessage
		Type    json.RawMessage
		Code    json.RawMessage
	}
	var message string
	switch {
	case json.Unmarshal(data, &message) == nil:
	case json.Unmarshal(data, &v) == nil:
		if depth > 0 && len(v.Error) > 0 && (v.Error[0] == '{' || v.Error[0] == '"') {
			return nestedError(v.Error, depth-1)
		}
		if e.Type, e.Code = name(v.Type), name(v.Code); e.Type == "error" { // the event's
			e.Type = ""
		}
		message = scalar(v.Message)
		if message == "" {
			message = scalar(v.Detail)
		}
	case !json.Valid(data):
		message = string(data)
	}
	e.Message = redact(message)
	return e
}

// scalar returns a JSON string's value, or a number or boolean as it is written.
func scalar(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	if len(raw) > 0 && raw[0] != '{' && raw[0] != '[' {
		return string(raw)
	}
	return ""
}

// maxName is the longest error type or code that is passed on.
const maxName = 64

// name returns a scalar that looks like the name of an error, else "".
func name(raw json.RawMessage) string {
	s := scalar(raw)
	if len(s) > maxName || redact(s) != s {
		return ""
	}
	for _, c := range s {
		if !strings.ContainsRune("_-. ", c) && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return ""
		}
	}
	return s
}
